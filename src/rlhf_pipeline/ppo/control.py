"""Ledger, rollback rule, guards and KL controller behind one torch-free object that the trainer asks.

The trainer reports steps and validations; this answers with actions. All state that must survive a
kill goes into the ledger with each commit, so a resumed run has the same coefficients and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from .. import paths
from ..checkpoints.code import git_commit
from ..checkpoints.disk import GIB
from ..checkpoints.ledger import Ledger
from ..checkpoints.restore import Restored
from ..guards import door as guards
from ..guards.monitor import GuardMonitor
from ..guards.rules import non_finite
from .job import Job
from .kl_controllers import make_kl_controller
from .rollback_rule import Decision, Validation, decide
from .validation import Sample, rule_scores, win_scores

KNOBS = ("kl_coef", "lr", "entropy_coeff")


@dataclass
class Knobs:
    """The loss weights and the learning-rate factor that guards and rollbacks may change in a running job."""

    kl_loss_coef: float
    entropy_coeff: float
    lr_factor: float = 1.0


@dataclass(frozen=True)
class Action:
    """What the trainer is to do after a step."""

    kind: Literal["rollback", "stop", "knobs"]
    reason: str
    restored: Restored | None = None


class RunControl:
    """Everything about a run that outlives a step.

    Args:
        announce: told in one sentence of every alarm, action and rollback.
    """

    def __init__(self, job: Job, announce: Callable[[str], None]):
        self.job = job
        self.params = job.typed_params()
        ppo = self.params.ppo
        self.knobs = Knobs(ppo.kl.loss.coef, ppo.actor.entropy_coeff)
        self.kl_controller = make_kl_controller(ppo.kl.reward)
        self.monitor = GuardMonitor(self.params.guards)
        self.announce = announce
        self.n_validations = -(-job.total_steps // job.validate_every_steps)
        self.first_judged: dict[str, float] = {}
        """The first validation's scores by the judge of win rates."""
        self.latest: Validation | None = None
        self.decision: Decision | None = None
        self.ledger = Ledger(
            Path(job.ledger),
            params_digest=job.params_digest,
            world_size=self.params.hardware.n_gpus_per_node * self.params.hardware.nnodes,
            keep_newest=ppo.checkpoints.keep_newest,
            min_free_bytes=int(ppo.checkpoints.min_free_gib * GIB),
            first_save_bytes=job.checkpoint_bytes,
            code_commit=git_commit(paths.workspace()),
        )

    def close(self) -> None:
        self.ledger.close()

    # ---- validation and saving

    def validated(self, step: int, samples: Sequence[Sample]) -> dict[str, float]:
        """Score a validation and decide on it; returns the metrics to log (`val/score` is the ledger's)."""
        rewards = {sample.key: sample.reward for sample in samples}
        self.first_judged = self.first_judged or {sample.key: sample.judged for sample in samples}
        kind = self.job.validation_score
        if kind == "gold":
            scores = rule_scores(samples)
        elif kind == "win_rate":
            scores = win_scores(samples, self.first_judged)
        else:
            scores = rewards
        self.latest = Validation(step, fmean(scores.values()), scores)
        self.decision = self._decide(self.latest)
        return {
            "val/win_rate": fmean(win_scores(samples, self.first_judged).values()),
            "val/score": self.latest.score,
            f"val/{kind}": self.latest.score,
            "val/reward": fmean(rewards.values()),
            "val/response_words": fmean(len(sample.response.split()) for sample in samples),
        }

    def _decide(self, new: Validation, fault: str | None = None) -> Decision:
        entry = self.ledger.best()
        best = None
        if entry is not None and entry.score is not None:
            best = Validation(entry.step, entry.score, self.ledger.scores_of(entry.step))
        return decide(
            new,
            best,
            self.params.rollback,
            self.ledger.rollbacks,
            fault=fault,
            seed=self.params.seed,
            n_validations=self.n_validations,
        )

    def to_save(self, step: int) -> bool:
        """Whether the validated step is to be committed: not twice, and not when it is about to be undone."""
        undone = self.decision is not None and self.decision.action == "rollback"
        return self.ledger.book.entry(step) is None and not undone

    def begin(self, step: int) -> Path:
        """The folder to save `step` into."""
        return self.ledger.begin(step)

    def commit(self, step: int) -> None:
        """Make the saved step count, with the validation that went before."""
        assert self.latest is not None, "a step is validated before it is saved"
        assert self.decision is not None, "a validation is decided upon"
        self.ledger.commit(
            step,
            score=self.latest.score,
            scores_by_prompt=self.latest.by_prompt,
            good=self.decision.good,
            trainer_state=self._state(),
        )

    # ---- after each step

    def ruined(self, metrics: Mapping[str, Any]) -> bool:
        """Whether an update has left numbers that are not finite, so that its weights must not be used."""
        return self.params.guards.non_finite == "stop" and non_finite(metrics) is not None

    def best(self) -> Restored | None:
        """The best committed step, verified, or None before the first commit."""
        return self.ledger.restore_best() if self.ledger.best() is not None else None

    def after_step(self, step: int, metrics: Mapping[str, Any]) -> Action | None:
        """What is to be done now that `step` is finished."""
        decision, self.decision = self.decision, None
        watch = self.monitor.observe(step, metrics)
        for alarm in watch.alarms:
            if alarm.is_new:
                self._tell("alarm", step, guard=alarm.guard, text=str(alarm))
        turned = [self._carry_out(action) for action in watch.actions if action.kind in KNOBS]
        for action in watch.actions:
            if action.kind == "rollback":
                decision = self._decide(Validation(step, math.nan, {}), action.reason)
            elif action.kind == "stop":
                return Action("stop", action.reason)
        if decision is not None and decision.action == "stop":
            return Action("stop", decision.reason)
        if decision is not None and decision.action == "rollback":
            return self._roll_back(step, decision.reason)
        return Action("knobs", "; ".join(turned)) if turned else None

    def _carry_out(self, action: guards.Action) -> str:
        knobs = self.knobs
        if action.kind == "kl_coef":
            self.kl_controller.scale(action.factor)
            knobs.kl_loss_coef = action.new_value(knobs.kl_loss_coef)
        elif action.kind == "lr":
            knobs.lr_factor = action.new_value(knobs.lr_factor)
        else:
            knobs.entropy_coeff = action.new_value(knobs.entropy_coeff)
        self._tell("action", action.step, guard=action.guard, what=action.kind, text=action.reason)
        return action.reason

    def _roll_back(self, step: int, reason: str) -> Action:
        restored = self.ledger.restore_best()
        self.ledger.mark_rolled_back(step, restored.step, reason)
        self._take(restored)
        self.announce(f"rolled back from step {step} to step {restored.step}: {reason}")
        return Action("rollback", reason, restored)

    def _tell(self, kind: str, step: int, text: str, **facts: Any) -> None:
        self.ledger.log(kind, step, text=text, **facts)
        self.announce(f"step {step}: {kind}: {text}")

    # ---- state

    def _state(self) -> dict[str, Any]:
        return {
            "knobs": asdict(self.knobs),
            "kl_controller": self.kl_controller.state_dict(),
            "guards": self.monitor.state_dict(),
            "first_judged": self.first_judged,
        }

    def resume(self) -> Restored | None:
        """The newest committed step that verifies; its state is taken over."""
        restored = self.ledger.resume()
        if restored is not None:
            self._take(restored)
        return restored

    def _take(self, restored: Restored) -> None:
        """Go on from a step's state, with what the rollbacks since it was saved have changed."""
        state, rule = restored.state, self.params.rollback
        self.knobs = Knobs(**state["knobs"])
        self.kl_controller.load_state_dict(state["kl_controller"])
        self.monitor.load_state_dict(state["guards"])
        self.first_judged = dict(state["first_judged"])
        for _ in range(self.ledger.rollbacks - restored.entry.rollbacks):
            self.knobs.lr_factor *= rule.lr_factor
            self.knobs.kl_loss_coef *= rule.kl_coef_factor
            self.kl_controller.scale(rule.kl_coef_factor)

    def finish(self, reason: str) -> None:
        self.ledger.finish(reason)
        self.close()
