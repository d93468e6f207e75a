"""Apply a shim to a module when, and only if, the process imports that module.

A training job is about ten Python processes, and verl's engines take seconds to import in each.
Most processes never need them, so nothing is imported just to be changed. A shim that fails makes
the import fail: the process stops instead of training with the unchanged function.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import wrapt

from rlhf_pipeline.backend import status


def when_imported(module_name: str, name: str, shim: Callable[[ModuleType], None]) -> None:
    """Call `shim(module)` right after `module_name` was imported, at once if it already is.

    `name` is how `status.status()` reports the shim. Whatever `shim` raises is raised by the
    import statement.
    """
    status.waiting(name, module_name)
    wrapt.register_post_import_hook(
        lambda module: status.apply(name, module_name, lambda: shim(module)), module_name
    )
