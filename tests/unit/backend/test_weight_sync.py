"""Weight-sync sockets in the run's own folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.backend import weight_sync
from rlhf_pipeline.backend.env import worker_env


def test_an_address_in_tmp_moves_to_the_runs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/run/a")
    verl = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-0.sock"
    assert weight_sync.socket_address(verl) == "ipc:///run/a/rl-colocate-zmq-01000000-replica-0-rank-0.sock"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:5555", "ipc:///var/run/weights.sock"])
def test_other_addresses_stay(address: str) -> None:
    assert weight_sync.socket_address(address) == address


TRANSFER = """
import asyncio, os, threading
import torch
from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer as transfer

address = "ipc:///tmp/rl-colocate-zmq-test-replica-0-rank-0.sock"
weights = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([7], dtype=torch.int64)}
received, sockets = {}, []

def keep(bucket, is_last):
    sockets.append(sorted(os.listdir(os.environ["TMPDIR"])))
    received.update((name, tensor.clone()) for name, tensor in bucket)

receiver = transfer.BucketedWeightReceiver(address, device=torch.device("cpu"), use_shm=True)
thread = threading.Thread(target=receiver.receive_weights, kwargs={"on_bucket_received": keep})
thread.start()
sender = transfer.BucketedWeightSender(address, bucket_size_mb=1, use_shm=True)
asyncio.run(sender.async_send_weights(iter(weights.items())))
thread.join()
assert sockets[0] == ["rl-colocate-zmq-test-replica-0-rank-0.sock"], sockets
assert all(torch.equal(received[name], weights[name]) for name in weights), received
"""


@pytest.mark.slow
def test_verls_own_sender_and_receiver_meet_in_the_runs_folder() -> None:
    # pytest's own folders are too long for a socket's path.
    tmp_dir = Path(f"/tmp/rlhf-test-{os.getpid()}")
    tmp_dir.mkdir()
    env = {**os.environ, **worker_env("cpu", tmp_dir)}
    try:
        child = subprocess.run(
            [sys.executable, "-c", TRANSFER],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert child.returncode == 0, child.stderr[-3000:]
    finally:
        shutil.rmtree(tmp_dir)
