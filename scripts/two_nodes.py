"""Runs a command beside a Ray cluster of two nodes on this machine: `python -m scripts.two_nodes -- COMMAND`.

For trying `hardware.ray_address` and `hardware.nnodes: 2` without a second machine: two raylets, one
CPU "GPU slot" each, at 127.0.0.1:6399. Ended with the command, whatever its outcome.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile

from rlhf_pipeline import errors
from rlhf_pipeline.backend.env import worker_env

PORT = 6399
SLOTS = {"num_cpus": 16, "num_gpus": 1}


def main() -> int:
    command = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if not command:
        raise errors.ParamsError("python -m scripts.two_nodes -- COMMAND: the command is missing")
    with tempfile.TemporaryDirectory(prefix="rlhf-", dir="/tmp") as folder:
        os.environ |= worker_env("cpu", folder)
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True,
            head_node_args={"gcs_server_port": PORT, "include_dashboard": False, **SLOTS},
        )
        try:
            cluster.add_node(**SLOTS)
            return subprocess.run(command, check=False).returncode
        finally:
            cluster.shutdown()


if __name__ == "__main__":
    sys.exit(errors.main(main))
