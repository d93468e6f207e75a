"""Seeded sampling through vLLM's offline engine, in a process of its own that gives all its memory back.

`generate` is the caller's side; `python -m rlhf_pipeline.evaluation.generate_vllm JOB OUT` is the
process it starts. Every request carries its own seed. The right engine on GPUs; on CPU its start-up
takes longer than sampling from a small model (generate_torch.py).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import paths, process
from ..backend.env import worker_env
from .sampling import Request, Response, Sampling


def generate(folder: Path, requests: Sequence[Request], sampling: Sampling) -> list[Response]:
    """One response per request, in order; token ids end with the EOS that was sampled, if any.

    Raises:
        StageError: when vLLM cannot serve the folder; the log says why.
    """
    with tempfile.TemporaryDirectory(prefix="rlhf-generate-") as work:
        job, out = Path(work, "job.json"), Path(work, "out.json")
        job.write_text(
            json.dumps({"folder": str(folder), "sampling": sampling._asdict(), "requests": list(requests)}),
            encoding="utf-8",
        )
        process.run(
            [sys.executable, "-m", __name__, str(job), str(out)],
            log=paths.log("evaluate"),
            env=worker_env(sampling.device, work, threads=os.cpu_count() or 1),
            name="vllm",
        )
        return [Response(*row) for row in json.loads(out.read_text(encoding="utf-8"))]


def main(job: Path, out: Path) -> None:
    """Read a job, sample, write `[token_ids, text, finished]` per request."""
    from vllm import LLM, SamplingParams, TokensPrompt

    work = json.loads(job.read_text(encoding="utf-8"))
    sampling = Sampling(**work["sampling"])
    requests = [Request(*row) for row in work["requests"]]
    engine: dict[str, Any] = {
        "model": work["folder"],
        "dtype": sampling.dtype,
        "tensor_parallel_size": sampling.tensor_parallel_size,
        "max_model_len": max(len(request.prompt_ids) for request in requests) + sampling.max_tokens,
        "enforce_eager": sampling.device == "cpu",
        # Model folders may carry sampling defaults; only params.yaml may set them here.
        "generation_config": "vllm",
    }
    if sampling.device != "cpu":
        engine["gpu_memory_utilization"] = sampling.gpu_memory_utilization
        # CUDA graphs for decoding alone: compiling the model takes longer than sampling from it once.
        engine["compilation_config"] = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
    wishes = [
        SamplingParams(
            temperature=sampling.temperature,
            max_tokens=sampling.max_tokens,
            seed=request.seed,
            detokenize=False,
        )
        for request in requests
    ]
    model = LLM(**engine)
    answers = model.generate(
        [TokensPrompt(prompt_token_ids=request.prompt_ids) for request in requests], wishes, use_tqdm=False
    )
    rows = [
        [
            list(first.token_ids),
            # vLLM's own text, made token by token, drops a character that is cut off at the end.
            model.get_tokenizer().decode(first.token_ids, skip_special_tokens=True),
            first.finish_reason == "stop",
        ]
        for first in (answer.outputs[0] for answer in answers)
    ]
    out.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
