"""verl's workers with a door for the trainer's actions: learning rate, KL and entropy weights.

verl reads these once at start; changing them in a running job needs a method on the workers.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


def set_learning_rate_factor(engine: Any, factor: float) -> None:
    """Make the learning rate `factor` times the configured schedule's, now and for the steps to come.

    torch's LambdaLR recomputes each step from `base_lrs`, so those change together with the groups.
    Setting the same factor again changes nothing.
    """
    scheduler = engine.lr_scheduler
    groups = engine.optimizer.param_groups
    scheduler.base_lrs = [group["initial_lr"] * factor for group in groups]
    for group, base_lr, schedule in zip(groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
        group["lr"] = base_lr * schedule(scheduler.last_epoch)


class PolicyWorker(ActorRolloutRefWorker):
    """Actor, reference and rollout side of verl's hybrid engine."""

    loss_fn: Any

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_knobs(self, lr_factor: float, kl_loss_coef: float, entropy_coeff: float) -> None:
        """Use these from the next update on. verl: actor.kl_loss_coef, actor.entropy_coeff."""
        set_learning_rate_factor(self.actor.engine, lr_factor)
        config = copy.copy(self.loss_fn.keywords["config"])
        # verl freezes its configuration objects; this is a copy that only the loss reads.
        object.__setattr__(config, "kl_loss_coef", kl_loss_coef)
        object.__setattr__(config, "entropy_coeff", entropy_coeff)
        self.loss_fn = partial(self.loss_fn.func, **{**self.loss_fn.keywords, "config": config})
        self.actor.set_loss_fn(self.loss_fn)


class CriticWorker(TrainingWorker):
    """The value model's worker."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_lr_factor(self, factor: float) -> None:
        set_learning_rate_factor(self.engine, factor)
