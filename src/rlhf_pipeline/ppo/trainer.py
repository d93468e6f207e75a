"""Our verl trainer: validates, then saves into the ledger; applies guards and rollbacks between steps.

Built on verl's synchronous v1 trainer, whose step it leaves as it is. What it changes: the replay
buffer's 2 s poll, saving before validating (and so without knowing what is being saved), resuming
from half-written folders, KL controllers without state. The decisions themselves (rollback rule,
guards, controllers, ledger) are torch-free modules; this file only connects them to verl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ..checkpoints.restore import Restored
from ..guards.texts import rollout_repetition
from .control import RunControl
from .job import EVENT_MARK, Job
from .overrides import TRAINER_MODE
from .position import load_position, save_position
from .rollout_watch import watch_rollouts
from .seeds import batch_order
from .validation import gold_mean, judged_by, keyed
from .workers import CriticWorker, PolicyWorker

POLL_INTERVAL_S = 0.02
DATA_POSITION = "data.json"
TEXTS_WATCHED = 256
"""Responses of each step that are read for repetition and scored by the gold rule."""
ROW = ("data_source", "ability", "reward_model", "extra_info", "raw_prompt")


def announce(text: str) -> None:
    """Tell the stage, which reads the driver's output (watch.py)."""
    print(f"{EVENT_MARK}{text}", flush=True)


def load_judge(folder: str | None) -> Any:
    """The held-out judge, on the CPU: the GPUs are full with the run."""
    if folder is None:
        return None
    from ..evaluation.judges import Judge

    return Judge(Path(folder), torch.device("cpu"), torch.float32)


class TrainingStopped(Exception):
    """A guard or the rollback limit ended the run; the best committed step is the result."""


class StepLogger:
    """verl's logger, and the one place in its loop where a finished step can be acted upon.

    verl logs after it has cleared the step's batch and before it counts the next step, so a rollback
    here starts the next iteration cleanly.
    """

    def __init__(self, inner: Any, after_step: Any):
        self.inner, self.after_step = inner, after_step

    def log(self, data: dict[str, Any], step: int) -> None:
        self.after_step(data, step)
        self.inner.log(data=data, step=step)

    def finish(self, *args: Any, **kwargs: Any) -> None:
        self.inner.finish(*args, **kwargs)


@register_trainer(TRAINER_MODE)
class RLHFTrainer(PPOTrainerSync):
    """Synchronous PPO with a ledger, rollback and guards."""

    logger: Any

    def __init__(self, config: Any):
        with open_dict(config):
            # verl takes every mode but "sync" for an asynchronous one.
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)
        job = Job.read()
        self.control = RunControl(job, announce)
        self.judge = load_judge(job.judge)
        if config.algorithm.use_kl_in_reward:
            self.kl_ctrl_in_reward = self.control.kl_controller
        self.step_metrics: dict[str, Any] = {}
        self.captured: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.fetched: dict[str, int] = {}

    # --- construction -------------------------------------------------------------------------

    def _build_replay_buffer(self) -> Any:
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = POLL_INTERVAL_S
        return buffer

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        import ray

        for role in self.role_worker_mapping:
            worker = CriticWorker if role == Role.Critic else PolicyWorker
            self.role_worker_mapping[role] = ray.remote(worker)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        for row in self.val_dataset.dataframe:
            prompt = self.tokenizer.apply_chat_template(
                row["prompt"], add_generation_prompt=True, tokenize=True, return_dict=False
            )
            self.rows[self.tokenizer.decode(prompt, skip_special_tokens=True)] = row

    # --- the run ------------------------------------------------------------------------------

    def run(self, agent_loop_manager: Any) -> None:
        """Train to the end, or until a guard or the rollback limit stops the run."""
        watch_rollouts(self.replay_buffer, agent_loop_manager.agent_loop_workers)
        reason = "all steps done"
        if self.global_steps < self.total_training_steps:
            try:
                self.fit(agent_loop_manager)
            except TrainingStopped as stop:
                reason = str(stop)
                self._shutdown_dump_executor()
        self.control.finish(reason)

    def on_train_begin(self) -> None:
        super().on_train_begin()
        self.logger = StepLogger(self.logger, self._after_step)

    def _after_step(self, metrics: dict[str, Any], step: int) -> None:
        """Let the control see the finished step and do what it says."""
        action = self.control.after_step(step, metrics)
        if action is None:
            return
        if action.kind == "stop":
            raise TrainingStopped(action.reason)
        if action.restored is not None:
            self._restore(action.restored)
        self._set_knobs()
        if action.restored is not None:
            self.checkpoint_manager.update_weights(self.global_steps)

    def prepare_step(self) -> Any:
        self.fetched.clear()
        return super().prepare_step()

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        for uid in batch["uid"]:
            self.fetched[str(uid)] = len(self.fetched)
        return batch

    def _compute_reward_colocate(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        batch.reorder(batch_order(batch.keys, self.fetched))
        return super()._compute_reward_colocate(batch, *args, **kwargs)

    def _balance_batch(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        batch.reorder(batch_order(batch.keys, self.fetched))
        return super()._balance_batch(batch, *args, **kwargs)

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        keys = batch.keys[:TEXTS_WATCHED]
        fields = ["responses", *ROW]
        data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
        texts = self.tokenizer.batch_decode(list(data["responses"].unbind()), skip_special_tokens=True)
        metrics["rollout/repetition"] = rollout_repetition(texts)
        columns = [list(data[name]) for name in ROW]
        rows = [dict(zip(ROW, values, strict=True)) for values in zip(*columns, strict=True)]
        gold = gold_mean([{**row, "prompt": row["raw_prompt"]} for row in rows], texts)
        if gold is not None:
            metrics["rollout/gold/mean"] = gold

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        result = super()._update_actor(batch, metrics)
        self.step_metrics = metrics
        return result

    def on_step_end(self) -> None:
        if self.control.ruined(self.step_metrics):
            # The weights may be ruined: bring back good ones before the rollout engine gets them.
            best = self.control.best()
            if best is not None:
                self._load_models(best)
        super().on_step_end()

    def _set_knobs(self) -> None:
        knobs = self.control.knobs
        self.actor_rollout_wg.set_knobs(knobs.lr_factor, knobs.kl_loss_coef, knobs.entropy_coeff)
        if self.use_critic:
            self.critic_wg.set_lr_factor(knobs.lr_factor)

    # --- validation and saving ----------------------------------------------------------------

    def _dump_generations(self, inputs: Any, outputs: Any, gts: Any, scores: Any, **rest: Any) -> None:
        self.captured = {"inputs": inputs, "outputs": outputs, "rewards": scores}
        super()._dump_generations(inputs=inputs, outputs=outputs, gts=gts, scores=scores, **rest)

    def _validate(self) -> dict[str, Any]:
        """verl's validation, then one bounded score per prompt, then the save of this step."""
        if self.control.ruined(self.step_metrics):
            return {"val/skipped": 1.0}
        metrics = super()._validate()
        samples = keyed(
            self.captured["inputs"], self.captured["outputs"], self.captured["rewards"], self.rows
        )
        if self.judge is not None:
            samples = judged_by(lambda prompts, texts: self.judge.score_texts(prompts, texts)[0], samples)
        metrics |= self.control.validated(self.global_steps, samples)
        if self.control.to_save(self.global_steps):
            self._save_checkpoint()
        return metrics

    def _save_checkpoint(self) -> None:
        """Save actor, critic and data position of this step and commit them with their score."""
        step = self.global_steps
        folder = self.control.begin(step)
        self.actor_rollout_wg.save_checkpoint(str(folder / "actor"), None, step, max_ckpt_to_keep=None)
        if self.use_critic:
            self.critic_wg.save_checkpoint(str(folder / "critic"), None, step, max_ckpt_to_keep=None)
        save_position(folder / DATA_POSITION, self.train_dataloader.state_dict())
        self.control.commit(step)

    def _load_checkpoint(self) -> None:
        """Resume from the ledger's newest committed step, or start at 0."""
        self.global_steps = 0
        restored = self.control.resume()
        if restored is None:
            return
        self._restore(restored)
        self._set_knobs()
        with open_dict(self.config):
            # This step was validated before it was saved.
            self.config.trainer.val_before_train = False

    def _restore(self, restored: Restored) -> None:
        """Go on from a verified step: models, optimisers, schedulers, RNG, data position."""
        self._load_models(restored)
        self.train_dataloader.load_state_dict(load_position(restored.folder / DATA_POSITION))
        self.train_dataloader_it = None
        self.global_steps = restored.step

    def _load_models(self, restored: Restored) -> None:
        folder = restored.folder
        self.actor_rollout_wg.load_checkpoint(local_path=str(folder / "actor"), del_local_after_load=False)
        if self.use_critic:
            self.critic_wg.load_checkpoint(local_path=str(folder / "critic"), del_local_after_load=False)
