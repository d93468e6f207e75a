"""torch's rendezvous server, really opened: on the loopback interface, and answering its clients."""

from __future__ import annotations

import importlib
import os
import threading
from datetime import timedelta
from typing import Any

import psutil

from rlhf_pipeline.backend import loopback
from rlhf_pipeline.train.ranks import free_port


def listening() -> set[tuple[str, int]]:
    found = psutil.Process(os.getpid()).net_connections(kind="tcp")
    return {(entry.laddr.ip, entry.laddr.port) for entry in found if entry.status == psutil.CONN_LISTEN}


def test_the_store_listens_on_loopback_alone_and_serves_another_rank() -> None:
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    loopback.install()
    loopback.install(rendezvous)
    before, port, timeout = listening(), free_port(), timedelta(seconds=20)
    stores: dict[int, Any] = {}

    def join(rank: int) -> None:
        stores[rank] = rendezvous._create_c10d_store("127.0.0.1", port, rank, 2, timeout)

    ranks = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join(30)
    assert listening() - before == {("127.0.0.1", port)}
    stores[0].set("weights", "ready")
    assert stores[1].get("weights") == b"ready"
