"""Give verl's weight-sync sockets a folder of their own for each run.

A training worker sends new weights to its vLLM worker through a Unix socket that verl names
/tmp/rl-colocate-zmq-<Ray job id>-.... Every Ray started for one run counts its jobs from 1, so two
runs on one machine share the name and take each other's weights.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

_VERL_PREFIX = "ipc:///tmp/"


def socket_address(verl_address: str) -> str:
    """`verl_address` moved from /tmp to this process's temporary folder (TMPDIR).

    Sender and receiver run on one machine and inherit one TMPDIR from the launcher.
    """
    if not verl_address.startswith(_VERL_PREFIX):
        return verl_address
    return f"ipc://{Path(tempfile.gettempdir()) / verl_address.removeprefix(_VERL_PREFIX)}"


def move_sockets(transfer: ModuleType) -> None:
    """Make both ends in `transfer`, verl's module of the two, use `socket_address`."""
    for end in (transfer.BucketedWeightSender, transfer.BucketedWeightReceiver):
        _move(end)


def _move(end: type) -> None:
    original = end.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def __init__(self: Any, zmq_handle: str, *args: Any, **kwargs: Any) -> None:
        original(self, socket_address(zmq_handle), *args, **kwargs)

    end.__init__ = __init__  # type: ignore[misc]
