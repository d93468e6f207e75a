"""params -> the configuration of verl's SFT trainer: a pure function to dotted keys.

Keys are verl 0.9.1's (trainer/config/sft_trainer_engine.yaml); ppo/compose.py refuses unknown ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..hardware import attention
from ..params import Params
from ..params.training import SFT

EXTRA_KEYS = frozenset({"model.override_config.attn_implementation", "engine.mixed_precision"})
CONFIG = "sft_trainer_engine"


class SFTPaths(NamedTuple):
    """Where one SFT run finds its inputs and keeps its state; all absolute."""

    train_file: Path
    validation_file: Path
    model: Path
    checkpoints: Path


def sft_config(params: Params, sft: SFT, paths: SFTPaths, device: str, total_steps: int) -> dict[str, Any]:
    """Every key this pipeline sets for verl.trainer.sft_trainer."""
    hardware, data = params.hardware, params.data
    fp32 = device == "cpu" or hardware.dtype == "float32"
    return {
        "data.train_files": str(paths.train_file),
        "data.val_files": str(paths.validation_file),
        "data.train_batch_size": sft.batch_size,
        "data.micro_batch_size_per_gpu": sft.micro_batch_size_per_gpu,
        "data.max_length": data.max_prompt_tokens + data.max_response_tokens,
        "data.use_dynamic_bsz": False,
        "data.num_workers": 0,
        "data.pad_mode": "no_padding",
        "data.truncation": "error",
        "model.path": str(paths.model),
        # sdpa attends over the whole packed row, which costs more than padding does; GPU kernels do not.
        "model.use_remove_padding": device == "cuda" and hardware.attention != "sdpa",
        "model.enable_gradient_checkpointing": sft.gradient_checkpointing,
        "model.override_config.attn_implementation": attention(params, device),
        "engine.strategy": "fsdp" if hardware.strategy == "fsdp" else "fsdp2",
        "engine.use_torch_compile": False,
        "engine.dtype": "float32" if fp32 else hardware.dtype,
        # The autocast type; engine.dtype alone leaves verl computing in bfloat16.
        "engine.mixed_precision": dict.fromkeys(("param_dtype", "reduce_dtype", "buffer_dtype"), "fp32")
        if fp32
        else None,
        "engine.model_dtype": "fp32",
        "engine.seed": params.seed,
        "engine.offload_policy": hardware.offload_policy,
        "optim.lr": sft.optimiser.lr,
        "optim.lr_warmup_steps_ratio": sft.optimiser.warmup_ratio,
        "optim.lr_scheduler_type": sft.optimiser.schedule,
        "optim.weight_decay": sft.optimiser.weight_decay,
        "optim.clip_grad": sft.optimiser.grad_clip,
        # One call for all tensors; the other way, a loop, costs a small model an eighth of its step on CPU.
        "optim.override_optimizer_config": {"foreach": True},
        "trainer.device": device,
        "trainer.nnodes": hardware.nnodes,
        "trainer.n_gpus_per_node": hardware.n_gpus_per_node,
        "trainer.seed": params.seed,
        "trainer.total_epochs": sft.epochs,
        "trainer.total_training_steps": total_steps,
        "trainer.save_freq": min(sft.validate_every_steps, total_steps),
        "trainer.test_freq": min(sft.validate_every_steps, total_steps),
        "trainer.default_local_dir": str(paths.checkpoints),
        "trainer.logger": ["file"],
        "trainer.project_name": params.tracking.project,
        "trainer.experiment_name": "sft",
        "trainer.resume_mode": "disable",
        "checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "checkpoint.load_contents": ["model", "optimizer", "extra"],
    }
