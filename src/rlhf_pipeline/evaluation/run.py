"""Compares two policies on the test prompts: samples once each, judges, measures KL, computes the figures.

The one entry point for the evaluate stage, the compare command and the release step. Reads models and
data, writes nothing but the cache of generations; publishing is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import paths
from ..errors import DataError
from ..hardware import resolve_device
from ..params import Params
from ..publish import without_files
from ..rendering import prompt_ids
from .generate import cached_generate
from .gold import gold_scores, has_rule
from .kl import kl_metrics
from .metrics import JUDGES, Resampling, Side, as_matrix, comparison_metrics
from .pairs import pair_report
from .prompts import held_out_pairs, held_out_prompts, last_user_text
from .sampling import Request, Response, Sampling, seed_of

Note = Callable[[str], None]
ACCURACY = ("pair_accuracy", "pair_accuracy_ci_low", "pair_accuracy_ci_high")
"""What is said of the judge on preference pairs."""


class Evaluation(NamedTuple):
    """What a comparison found."""

    metrics: dict[str, Any]
    """Flat figures with plain names."""
    samples: list[dict[str, Any]]
    """One row per prompt and sample: both responses and their scores."""
    details: dict[str, Any]
    """Breakdowns behind the reward-model figures."""


class _Sampled(NamedTuple):
    label: str
    folder: Path
    tokenizer: Any
    prompts: list[list[int]]
    """Token ids, one per response."""
    responses: list[Response]


def evaluate(
    params: Params,
    policy: Path = paths.POLICY,
    against: Path = paths.SFT_MODEL,
    *,
    label: str = "sft",
    reward_model: Path = paths.REWARD_MODEL,
    judge: Path | None = paths.JUDGE,
    data: Path = paths.VALIDATED,
    pairs: bool = True,
    note: Note = lambda text: None,
) -> Evaluation:
    """Compare the model in `policy` with the one in `against`, whose figures end in `_<label>`.

    `judge` is a second scoring model that the policy was not trained against; a folder without a model
    counts as None. `pairs` False leaves out the figures on preference pairs.

    Raises:
        DataError: when a model or table is missing or not what it should be.
    """
    settings = params.evaluate
    rows = held_out_prompts(settings.n_prompts, data)
    every_row = [row for row in rows for _ in range(settings.samples_per_prompt)]
    sides = []
    for name, folder in ((label, against), ("policy", policy)):
        note(f"sampling {len(every_row)} responses from {folder}")
        sides.append(_sample(params, name, folder, rows))
    theirs, ours = sides
    note("scoring")
    judged = [dict[str, Any](), dict[str, Any]()]
    if has_rule(rows):
        for side, scores in zip(sides, judged, strict=True):
            scores["gold"] = gold_scores(every_row, [response.text for response in side.responses])
    metrics: dict[str, Any] = {"n_prompts": len(rows), "samples_per_prompt": settings.samples_per_prompt}
    details: dict[str, Any] = {}
    resampling = Resampling(settings.n_bootstrap, params.seed)
    rows_of_pairs = held_out_pairs(data) if pairs else []
    judges: dict[str, Path | None] = {"reward": reward_model, "judge": judge}
    for name, model in judges.items():
        if model is None or without_files(model):
            continue
        scorer = load_judge(params, model)
        for side, scores in zip(sides, judged, strict=True):
            scores[name] = scorer.score_samples(every_row, side.responses, side.tokenizer)
        if rows_of_pairs:
            found, breakdowns = _pairs(scorer, rows_of_pairs, resampling)
            if name == "reward":
                metrics |= found
                details = breakdowns
            else:
                metrics |= {f"judge_{key}": found[key] for key in ACCURACY}
        del scorer
    if not judged[0]:
        raise DataError(
            f"nothing judges the responses: no rule for every test prompt, no model in {reward_model}, and"
            " evaluate.judge is none"
        )
    note("KL between the policies")
    metrics |= _kl(params, ours, theirs, every_row)
    compared = [
        Side(
            side.label,
            side.responses,
            {name: as_matrix(values, len(rows)) for name, values in scores.items()},
        )
        for side, scores in zip(sides, judged, strict=True)
    ]
    metrics |= comparison_metrics(compared[1], compared[0], resampling)
    metrics["tokens"] = sum(len(response.token_ids) for side in sides for response in side.responses)
    metrics["win_rate_judge"] = next(name for name in JUDGES if name in judged[0])
    return Evaluation(metrics, _sample_rows(every_row, sides, judged), details)


def sampling_of(params: Params) -> Sampling:
    """The sampling that params ask for; `engine: auto` is vLLM on CUDA and torch on CPU."""
    evaluate, hardware = params.evaluate, params.hardware
    device = resolve_device(params)
    engine = evaluate.engine
    if engine == "auto":
        engine = "vllm" if device == "cuda" else "torch"
    return Sampling(
        engine=engine,
        max_tokens=params.data.max_response_tokens,
        temperature=evaluate.temperature,
        device=device,
        dtype=hardware.dtype,
        tensor_parallel_size=hardware.tensor_parallel_size,
        gpu_memory_utilization=evaluate.gpu_memory_utilization,
    )


def _sample(params: Params, label: str, folder: Path, rows: Sequence[dict[str, Any]]) -> _Sampled:
    from .models import load_tokenizer

    tokenizer = load_tokenizer(folder)
    requests = []
    for row in rows:
        ids = prompt_ids(tokenizer, row["prompt"])
        identifier = row["extra_info"]["prompt_id"]
        for sample in range(params.evaluate.samples_per_prompt):
            requests.append(Request(ids, seed_of(params.seed, identifier, sample)))
    responses = cached_generate(folder, requests, sampling_of(params))
    return _Sampled(label, folder, tokenizer, [request.prompt_ids for request in requests], responses)


def _pairs(
    judge: Any, pairs: Sequence[dict[str, Any]], resampling: Resampling
) -> tuple[dict[str, float], dict[str, Any]]:
    prompts = [pair["prompt"] for pair in pairs]
    chosen, chosen_tokens = judge.score_texts(prompts, [pair["chosen"] for pair in pairs])
    rejected, rejected_tokens = judge.score_texts(prompts, [pair["rejected"] for pair in pairs])
    lengths = list(zip(chosen_tokens, rejected_tokens, strict=True))
    return pair_report(pairs, chosen - rejected, lengths, *resampling)


def _kl(params: Params, ours: _Sampled, theirs: _Sampled, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """KL(policy || other) on the policy's samples; nothing when the two do not share a vocabulary."""
    from .models import device_of, dtype_of, load_policy
    from .scoring import token_logprobs

    if ours.tokenizer.get_vocab() != theirs.tokenizer.get_vocab():
        return {}
    device, dtype = device_of(resolve_device(params)), dtype_of(params.hardware.dtype)
    found = token_logprobs(
        load_policy(ours.folder, device, dtype),
        load_policy(theirs.folder, device, dtype),
        ours.prompts,
        [response.token_ids for response in ours.responses],
        ours.tokenizer.pad_token_id or 0,
        params.evaluate.temperature,
    )
    return kl_metrics(
        found.policy, found.ref, found.exact_kl, [row["extra_info"]["prompt_id"] for row in rows]
    )


def _sample_rows(
    rows: Sequence[dict[str, Any]], sides: Sequence[_Sampled], judged: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One flat row per prompt and sample, for samples.jsonl."""
    result: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        identifier = row["extra_info"]["prompt_id"]
        again = bool(result) and result[-1]["prompt_id"] == identifier
        entry: dict[str, Any] = {
            "prompt_id": identifier,
            "sample": result[-1]["sample"] + 1 if again else 0,
            "source": row["data_source"],
            "prompt": last_user_text(row),
        }
        for side, scores in zip(sides, judged, strict=True):
            response = side.responses[index]
            entry[f"response_{side.label}"] = response.text
            entry[f"tokens_{side.label}"] = len(response.token_ids)
            for name, values in scores.items():
                entry[f"{name}_{side.label}"] = float(values[index])
        result.append(entry)
    return result


def require_inputs(*folders: Path) -> None:
    """Raise DataError naming the first folder that does not exist."""
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder} does not exist: run `dvc repro`, or name another")


def load_judge(params: Params, folder: Path) -> Any:
    """A `Judge` on the device and in the dtype that params ask for; raises DataError for a wrong folder."""
    from .judges import Judge
    from .models import device_of, dtype_of

    return Judge(folder, device_of(resolve_device(params)), dtype_of(params.hardware.dtype))
