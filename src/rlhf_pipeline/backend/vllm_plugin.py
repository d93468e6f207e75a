"""vLLM's plugin (entry point group `vllm.general_plugins`): called in every vLLM process.

On a CPU vLLM repacks each linear weight for oneDNN and leaves an empty tensor in its place, so new
weights from the trainer no longer fit. Packing is turned off, but only in the vLLM processes that
verl starts: evaluation and serving never change weights and keep the faster kernels.
"""

from __future__ import annotations

import os


def in_verl_rollout() -> bool:
    """Whether this vLLM process belongs to a rollout of verl, which names each with this variable."""
    return "VERL_REPLICA_RANK" in os.environ


def register() -> None:
    """Listen on the loopback interface; keep plain weights in verl's rollouts on a CPU."""
    from rlhf_pipeline.backend import loopback

    loopback.install()
    if os.environ.get("VERL_PLATFORM") != "cpu" or not in_verl_rollout():
        return
    import vllm._custom_ops

    # An attribute that vLLM no longer has would be set without any effect.
    if not hasattr(vllm._custom_ops, "_supports_onednn"):
        from rlhf_pipeline.errors import EnvironmentProblem

        raise EnvironmentProblem("vllm._custom_ops has no _supports_onednn: weight sync would fail")
    vllm._custom_ops._supports_onednn = False
