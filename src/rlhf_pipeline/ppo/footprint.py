"""What of a GPU's memory PPO needs for certain, so that a run that cannot fit is refused before it starts.

Counted: weights, gradients, Adam's moments and what vLLM reserves; all of it follows from the models' sizes
and params. Not counted: activations and logits, which depend on the texts; what is left for them is told.
Megatron's layout is not modelled.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from ..checkpoints.disk import ADAM_BYTES_PER_PARAMETER, GIB
from ..errors import ParamsError
from ..params import Params

WEIGHT_BYTES = GRADIENT_BYTES = 4
"""verl keeps weights and gradients in float32 and computes in hardware.dtype."""
SERVED_BYTES = {"bfloat16": 2, "float32": 4}


class Sizes(NamedTuple):
    """Parameters of each model; 0 for one that is not used."""

    policy: int
    critic: int
    reward_model: int


class Footprint(NamedTuple):
    """Bytes on each GPU. The trainer's stay while vLLM samples; vLLM's are given back for training."""

    total: int
    weights: int
    """Of policy and critic; the reference policy waits in the host's memory (verl's `forward_only`)."""
    moments: int
    gradients: int
    """Of the larger model: one is trained after the other."""
    rollout_weights: int
    rollout: int
    reward_weights: int
    reward: int

    @property
    def left_for_training(self) -> int:
        """For activations, logits and gathered layers, while vLLM sleeps."""
        return self.total - self.weights - self.moments - self.gradients


def footprint(params: Params, sizes: Sizes, gpu_bytes: int) -> Footprint:
    """Bytes on each of the run's GPUs, the trainer's sharded by FSDP over all of them.

    With LoRA the policy's own weights are frozen. `hardware.offload_policy` keeps weights, gradients and
    moments in the host's memory.
    """
    hardware, ppo = params.hardware, params.ppo
    shards = hardware.n_gpus_per_node * hardware.nnodes
    trained = {"policy": 0 if ppo.lora_rank > 0 else sizes.policy, "critic": sizes.critic}
    on_gpu = not hardware.offload_policy
    served = ppo.reward.source == "reward_model" and ppo.reward.serving == "vllm"
    size = SERVED_BYTES[hardware.dtype]
    return Footprint(
        total=gpu_bytes,
        weights=on_gpu * WEIGHT_BYTES * (sizes.policy + sizes.critic) // shards,
        moments=on_gpu * ADAM_BYTES_PER_PARAMETER * sum(trained.values()) // shards,
        gradients=on_gpu * GRADIENT_BYTES * max(trained.values()) // shards,
        rollout_weights=size * sizes.policy // hardware.tensor_parallel_size,
        rollout=int(ppo.rollout.gpu_memory_utilization * gpu_bytes),
        reward_weights=size * sizes.reward_model // hardware.tensor_parallel_size if served else 0,
        reward=int(ppo.reward.gpu_memory_utilization * gpu_bytes) if served else 0,
    )


def problems(found: Footprint) -> list[str]:
    """What cannot fit, with its figures and the keys to change; empty when nothing is certain to fail."""
    told = []
    if found.left_for_training < 0:
        needed = found.total - found.left_for_training
        told.append(
            f"weights, gradients and Adam's moments take {gib(needed)} of each GPU's {gib(found.total)}:"
            " raise hardware.n_gpus_per_node or hardware.nnodes, set hardware.offload_policy: true, or train"
            " adapters (ppo.lora_rank)"
        )
    engines = (
        ("ppo.rollout", "policy", found.rollout_weights, found.rollout),
        ("ppo.reward", "reward model", found.reward_weights, found.reward),
    )
    for key, model, weights, share in engines:
        if found.weights + share > found.total:
            most = 1 - found.weights / found.total
            told.append(
                f"{key}.gpu_memory_utilization: vLLM asks for {gib(share)} beside the trainer's"
                f" {gib(found.weights)} of weights, of {gib(found.total)} in all; at most"
                f" {max(0.0, most):.2f} fits, or set hardware.offload_policy: true"
            )
        if weights >= share > 0:
            told.append(
                f"{key}.gpu_memory_utilization: vLLM's share of {gib(share)} does not hold the {model}'s"
                f" {gib(weights)} of weights; raise it, or hardware.tensor_parallel_size"
            )
    return told


def statement(found: Footprint) -> str:
    """One line for the start of a run: what stays, what is left, what vLLM takes."""
    stays = found.weights + found.moments + found.gradients
    engines = found.rollout + found.reward
    return (
        f"each GPU of {gib(found.total)}: training keeps {gib(stays)} and has"
        f" {gib(found.left_for_training)} for activations and logits; vLLM takes up to {gib(engines)} while"
        " it samples and scores"
    )


def check(params: Params, sizes: Sizes) -> str:
    """What a run will take of this machine's GPUs, in words; "" where that is not known.

    Raises:
        ParamsError: with every reason why it cannot fit.
    """
    total = gpu_bytes()
    if total is None or params.hardware.strategy == "megatron":
        return ""
    found = footprint(params, sizes, total)
    if told := problems(found):
        raise ParamsError("PPO does not fit in the GPU's memory\n" + "\n".join(f"  {line}" for line in told))
    return statement(found)


def gpu_bytes() -> int | None:
    """Memory of this machine's smallest GPU, from nvidia-smi; None where it does not say."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    sizes = [int(line) for line in said.stdout.split() if line.isdigit()]
    return min(sizes) * 1024**2 if sizes and said.returncode == 0 else None


def gib(n_bytes: int) -> str:
    """A size in words."""
    return f"{n_bytes / GIB:.1f} GiB"
