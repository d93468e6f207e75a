"""Apply a shim to a module when, and only if, the process imports that module.

A training job is about ten Python processes, and verl's engines take seconds to import in each.
Most processes never need them, so nothing is imported just to be changed. A shim that fails makes
the import fail: the process stops instead of training with the unchanged function.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import wrapt

from rlhf_pipeline.backend import record


def when_imported(module_name: str, name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change(module)` right after `module_name` was imported, at once if it already is.

    `name` is how `record.status()` reports the shim. Whatever `change` raises is raised by the
    import statement.
    """
    record.note(record.Shim(name, module_name, "waiting"))
    wrapt.register_post_import_hook(
        lambda module: record.apply(name, module_name, lambda: change(module)), module_name
    )
