"""The check before a launch: are the plugins really in place, for the versions they know?

Imports verl (seconds, and torch with it), because only that shows whether verl loads the plugin.
Not here: anything about params, data or free memory.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Literal

from rlhf_pipeline.backend import record, versions
from rlhf_pipeline.errors import EnvironmentProblem

_PLUGINS = {
    "verl.plugins": "rlhf_pipeline.backend.verl_plugin:register",
    "vllm.general_plugins": "rlhf_pipeline.backend.vllm_plugin:register",
}


def check(device: Literal["cpu", "cuda"]) -> None:
    """Raise `EnvironmentProblem` unless this process, and its children, have the backend for `device`.

    Checks the versions of verl and vLLM, the package's entry points, that verl loaded the plugin
    with every shim applied or waiting for its module, and that verl's platform is `device`.
    """
    versions.check_versions()
    for group, value in _PLUGINS.items():
        if value not in {point.value for point in entry_points(group=group)}:
            raise EnvironmentProblem(
                f"no entry point {value} in the group {group}: the installed metadata of rlhf-pipeline "
                "is missing or old; install the package again (make setup, or pip install -e .)"
            )
    _check_verl(device)


def _check_verl(device: str) -> None:
    import verl  # noqa: F401
    from verl.plugin.platform import get_platform

    shims = record.status()
    if not shims:
        # Raises what verl swallowed, if that is why the plugin is not there.
        from rlhf_pipeline.backend import verl_plugin  # noqa: F401

        raise EnvironmentProblem(
            "verl did not load the plugin rlhf_pipeline; VERL_USE_EXTERNAL_PLUGINS is "
            f"{os.environ.get('VERL_USE_EXTERNAL_PLUGINS', 'not set')!r}, expected 'auto' or 'rlhf_pipeline'"
        )
    if failed := [shim for shim in shims if shim.state == "failed"]:
        raise EnvironmentProblem(
            "the backend could not change verl: "
            + "; ".join(f"{shim.name} ({shim.target}): {shim.detail}" for shim in failed)
        )
    if (found := get_platform().device_name) != device:
        raise EnvironmentProblem(
            f"verl runs on {found!r} in this process, but {device!r} is asked for; VERL_PLATFORM is "
            f"{os.environ.get('VERL_PLATFORM', 'not set')!r} (start the process with backend.env.worker_env)"
        )
