"""The verl and vLLM plugins: the stack on a CPU, and a critic that is loaded strictly everywhere.

verl and vLLM find the plugins through the package's entry points, in every process they start.
A launcher calls `check(device)` first and gives its children `env.worker_env(...)`.
"""

from rlhf_pipeline.backend.preflight import check
from rlhf_pipeline.backend.record import status

__all__ = ["check", "status"]
