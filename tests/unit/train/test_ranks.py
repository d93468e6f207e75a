"""Several processes on one machine find one another without listening beyond the loopback interface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlhf_pipeline.errors import StageError
from rlhf_pipeline.params import Params
from rlhf_pipeline.train.ranks import run_module

RANK = """
import json, os, sys
import psutil, torch
from rlhf_pipeline.backend import loopback

loopback.install()
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
total = torch.tensor([rank + 1.0])
torch.distributed.all_reduce(total)
if total.item() == float(sys.argv[1]):
    here = psutil.Process()
    names = {"torchrun": here.parent(), str(rank): here}
    found = [
        (name, socket.laddr.ip)
        for name, process in names.items()
        for socket in process.net_connections(kind="tcp")
        if socket.status == psutil.CONN_LISTEN
    ]
    with open(f"rank{rank}.json", "w") as file:
        json.dump(found, file)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_meet_on_the_loopback_interface(
    small_params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ranked.py").write_text(RANK)
    two = small_params.model_copy(
        update={"hardware": small_params.hardware.model_copy(update={"n_gpus_per_node": 2})}
    )
    run_module("ranked", ["3.0"], two, "cpu", "ranked", None)
    found = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    addresses = {address for told in found for _, address in told}
    assert addresses == {"127.0.0.1"}
    assert not [name for told in found for name, _ in told if name == "torchrun"]
    with pytest.raises(StageError, match="no_such_module"):
        run_module("no_such_module", [], two, "cpu", "ranked", None)
