"""The PPO trainer's configuration, composed against the installed verl (see verl_config.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import verl_config
from .overrides import EXTRA_KEYS


def compose(
    keys: Mapping[str, Any], user_keys: Mapping[str, Any] | None = None, strategy: str = "fsdp2"
) -> Any:
    """The composed configuration for these keys and this sharding strategy.

    Raises:
        ParamsError: naming every key that verl does not have.
    """
    name = "ppo_megatron_trainer" if strategy == "megatron" else "ppo_trainer"
    return verl_config.compose(keys, extra_keys=EXTRA_KEYS, name=name, user_keys=user_keys)
