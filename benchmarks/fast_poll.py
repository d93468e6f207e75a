"""Lowers the interval at which plain verl looks whether a step's rollouts are there (its own: 2 s).

verl has no key for it, so verl itself imports this module (VERL_USE_EXTERNAL_MODULES). For
benchmarks/ppo.py only.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

POLL_INTERVAL_S = 0.02
MODULE = "verl.trainer.ppo.v1.replay_buffer"


class Lower(importlib.abc.MetaPathFinder):
    """Changes the class once verl imports its module, which it does long after it imports this one."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            construct = module.ReplayBuffer.__init__

            def init(buffer: Any, *args: Any, **kwargs: Any) -> None:
                construct(buffer, *args, **kwargs)
                buffer.poll_interval = POLL_INTERVAL_S

            module.ReplayBuffer.__init__ = init

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Lower())
