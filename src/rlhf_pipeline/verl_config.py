"""Turns dotted keys into the full configuration of the installed verl, refusing keys it does not know.

Reads verl's yaml files with hydra without importing verl (and so without torch).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import EnvironmentProblem, ParamsError


def compose(
    keys: Mapping[str, Any],
    *,
    extra_keys: frozenset[str],
    name: str,
    user_keys: Mapping[str, Any] | None = None,
) -> Any:
    """The composed `omegaconf.DictConfig` for these keys.

    Args:
        extra_keys: fields of verl's dataclasses that its yaml files leave out.
        name: verl's configuration file, such as ppo_trainer.
        user_keys: the part of `keys` that came from ppo.verl_overrides, for the error message.

    Raises:
        ParamsError: naming every key that verl does not have.
    """
    from omegaconf import OmegaConf, open_dict

    config = defaults(name)
    OmegaConf.set_struct(config, True)
    unknown = []
    for key, value in keys.items():
        if key in extra_keys:
            with open_dict(config):
                OmegaConf.update(config, key, value, merge=True, force_add=True)
        elif not _known(config, key):
            unknown.append(key)
        else:
            OmegaConf.update(config, key, value, merge=False)
    if unknown:
        lines = [
            f"  {'ppo.verl_overrides: ' if key in (user_keys or {}) else ''}{key}: verl has no such key"
            for key in unknown
        ]
        raise ParamsError("verl's configuration:\n" + "\n".join(lines))
    return config


def defaults(name: str = "ppo_trainer") -> Any:
    """verl's default configuration, as shipped.

    Raises:
        EnvironmentProblem: when verl is not installed.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentProblem("verl is not installed; run `make setup`")
    folder = Path(next(iter(spec.submodule_search_locations))) / "trainer" / "config"
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base=None):
        return hydra_compose(name)


def _known(config: Any, dotted: str) -> bool:
    """Whether the key stands in the configuration (a null or mandatory value counts)."""
    from omegaconf import OmegaConf

    *parents, last = dotted.split(".")
    place = OmegaConf.select(config, ".".join(parents)) if parents else config
    return place is not None and hasattr(place, "keys") and last in set(place.keys())
