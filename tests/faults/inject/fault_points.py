"""Faults for real runs: SIGKILL at a named moment, a NaN, a learning rate that jumps. No part of the product.

FAULT holds one or more of `point` or `point@step`, joined by commas. Once the named module of the package
is imported, the function that the moment belongs to is wrapped; everything else is the code as it is.
Each fault happens once in a process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

LEDGER = "rlhf_pipeline.checkpoints.ledger"
CONTROL = "rlhf_pipeline.ppo.control"
PUBLISH = "rlhf_pipeline.publish"
LR_FACTOR = 100.0


def install(faults: str) -> None:
    """Arrange for each fault of a list such as "before_rename@4" or "nan@3,rollback_marked"."""
    hooks: dict[str, list[Callable[[Any], None]]] = {}
    for fault in faults.split(","):
        name, _, step = fault.partition("@")
        module, hook = POINTS[name]
        hooks.setdefault(module, []).append(functools.partial(hook, step=int(step) if step else None))
    sys.meta_path.insert(0, _Finder(hooks))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, hooks: dict[str, list[Callable[[Any], None]]]) -> None:
        self.hooks = hooks

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        hooks = self.hooks.pop(name, None)
        if hooks is None:
            return None
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        spec.loader = _Loader(spec.loader, hooks)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, hooks: list[Callable[[Any], None]]) -> None:
        self.inner, self.hooks = inner, hooks

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
        for hook in self.hooks:
            hook(module)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wrap(owner: Any, name: str, before: Callable[..., Any] | None, after: Callable[..., Any] | None) -> None:
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(*args, **kwargs)
        result = inner(*args, **kwargs)
        return result if after is None else after(result, *args, **kwargs)

    setattr(owner, name, wrapped)


def _kill_before(owner: Any, name: str, step: int | None, step_of: Callable[..., int]) -> None:
    def before(*args: Any, **kwargs: Any) -> None:
        if step in (None, step_of(*args)):
            die()

    _wrap(owner, name, before, None)


def _second(_: Any, step: int = -1, *rest: Any) -> int:
    return step


def _in_files(module: Any, step: int | None) -> None:
    """Dies as soon as a file of the step is on the disk, while the trainer is writing it."""

    def after(folder: Any, _: Any, saved: int) -> Any:
        if step in (None, saved):
            threading.Thread(target=watch, args=(folder,), daemon=True).start()
        return folder

    def watch(folder: Any) -> None:
        while not any(path.is_file() and path.stat().st_size for path in folder.rglob("*")):
            time.sleep(0.0005)
        die()

    _wrap(module.Ledger, "begin", None, after)


def _before_manifest(module: Any, step: int | None) -> None:
    run_folder = importlib.import_module("rlhf_pipeline.checkpoints.run_folder")
    _kill_before(run_folder.RunFolder, "seal", step, lambda _, folder, facts, state: facts["step"])


def _before_rename(module: Any, step: int | None) -> None:
    run_folder = importlib.import_module("rlhf_pipeline.checkpoints.run_folder")
    _kill_before(run_folder.RunFolder, "publish", step, _second)


def _before_pointer(module: Any, step: int | None) -> None:
    _kill_before(module.Ledger, "_enter", step, _second)


def _between_copies(module: Any, step: int | None) -> None:
    """Dies when the ledger's backup names the step and the ledger does not yet."""
    record_file = importlib.import_module("rlhf_pipeline.checkpoints.record_file")
    entering: list[int] = []
    _wrap(module.Ledger, "_enter", lambda _, saved, *rest: entering.append(saved), None)

    def before(path: Any, text: str) -> None:
        if path.name == "ledger.json" and entering and step in (None, entering[-1]):
            die()

    _wrap(record_file, "write_text", before, None)


def _after_pointer(module: Any, step: int | None) -> None:
    entered: list[int] = []
    _wrap(module.Ledger, "_enter", lambda _, saved, *rest: entered.append(saved), None)
    _kill_before(module.Ledger, "prune", step, lambda _: entered[-1] if entered else -1)


def _in_validation(module: Any, step: int | None) -> None:
    _kill_before(module.RunControl, "validated", step, _second)


def _in_sft_validation(module: Any, step: int | None) -> None:
    """Dies when a validation loss is known and its step is not saved yet."""
    _wrap(module.Tracking, "log", lambda _, data, step, **rest: die() if "val/loss" in data else None, None)


def _in_reward_save(module: Any, step: int | None) -> None:
    """Dies when the weights of a checkpoint are on the disk and its optimiser is not."""
    _wrap(module.Trainer, "_save_optimizer_and_scheduler", lambda *_: die(), None)


def _in_reward_validation(module: Any, step: int | None) -> None:
    """Dies when the held-out pairs are scored and the step is not saved yet."""
    _wrap(module.Trainer, "evaluate", None, lambda *_, **__: die())


def _nan(module: Any, step: int | None) -> None:
    """Reports a gradient norm that is not a number, once, so that the run rolls back."""
    inner = module.RunControl.after_step
    done: list[int] = []

    def after_step(self: Any, at: int, metrics: Any) -> Any:
        if at == step and not done:
            done.append(at)
            metrics = {**metrics, "actor/grad_norm": math.nan}
        return inner(self, at, metrics)

    module.RunControl.after_step = after_step


def _rollback_chosen(module: Any, step: int | None) -> None:
    _kill_before(module.Ledger, "mark_rolled_back", step, _second)


def _rollback_marked(module: Any, step: int | None) -> None:
    """Dies when the ledger knows of the rollback and nothing was restored yet."""
    _kill_before(module.Ledger, "discard", None, lambda _: -1)


def _rollback_restoring(module: Any, step: int | None) -> None:
    """Dies when coefficients are back, before the weights are."""
    _wrap(module.RunControl, "_roll_back", None, lambda *_: die())


def _lr(module: Any, step: int | None) -> None:
    """Multiplies the learning rates by LR_FACTOR from the step after `step` on, once, whatever comes."""
    inner = module.RunControl.after_step
    done: list[int] = []

    def after_step(self: Any, at: int, metrics: Any) -> Any:
        action = inner(self, at, metrics)
        if at == step and not done:
            done.append(at)
            self.knobs.lr_factor *= LR_FACTOR
            self.ledger.log("fault", at, text=f"learning rates multiplied by {LR_FACTOR:g}")
            return action or module.Action("knobs", "fault")
        return action

    module.RunControl.after_step = after_step


def _publish_renamed(module: Any, step: int | None) -> None:
    """Dies when a stage's output has its name and figures and curve are not written yet."""
    inner = module.publishing

    @contextlib.contextmanager
    def publishing(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with inner(*args, **kwargs) as folder:
            yield folder
        die()

    module.publishing = publishing


def _publish_writing(module: Any, step: int | None) -> None:
    """Dies when a stage's output is complete in its temporary folder, before the rename."""
    _wrap(module, "sync_tree", lambda folder: die() if folder.name.startswith(".") else None, None)


POINTS: dict[str, tuple[str, Callable[..., None]]] = {
    "in_files": (LEDGER, _in_files),
    "before_manifest": (LEDGER, _before_manifest),
    "before_rename": (LEDGER, _before_rename),
    "before_pointer": (LEDGER, _before_pointer),
    "between_copies": (LEDGER, _between_copies),
    "after_pointer": (LEDGER, _after_pointer),
    "in_validation": (CONTROL, _in_validation),
    "in_sft_validation": ("verl.utils.tracking", _in_sft_validation),
    "in_reward_save": ("transformers.trainer", _in_reward_save),
    "in_reward_validation": ("transformers.trainer", _in_reward_validation),
    "nan": (CONTROL, _nan),
    "rollback_chosen": (LEDGER, _rollback_chosen),
    "rollback_marked": (LEDGER, _rollback_marked),
    "rollback_restoring": (CONTROL, _rollback_restoring),
    "lr": (CONTROL, _lr),
    "publish_writing": (PUBLISH, _publish_writing),
    "publish_renamed": (PUBLISH, _publish_renamed),
}
"""Name -> the module it belongs to, and what arranges for it."""
