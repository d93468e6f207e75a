"""The candidates of best-of-n distillation: several responses to one prompt, and which of them is best.

Sampled from the SFT model, or logged in the preferences table; scored by what `ppo.reward` names. A
response that was cut off or is empty is no candidate: it would teach the policy to stop mid-sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from .. import paths
from ..errors import DataError
from ..hardware import resolve_device
from ..params import Params

Row = dict[str, Any]
"""A row of the prompts table."""
Note = Callable[[str], None]


class Candidate(NamedTuple):
    """One response to a prompt."""

    text: str
    response: Any
    """The sampled tokens (evaluation.sampling.Response); None for a logged text."""


class Chosen(NamedTuple):
    """The best response to one prompt, and what the others were worth."""

    row: Row
    text: str
    score: float
    mean: float
    """Over all candidates of the prompt."""
    n: int


def prompts_of(split: str, n_prompts: int | None, data: Path = paths.VALIDATED) -> list[Row]:
    """Rows of the prompts table, each prompt once, ordered by prompt id, at most `n_prompts`.

    Raises:
        DataError: when the table is missing.
    """
    rows = {row["extra_info"]["prompt_id"]: row for row in _read(paths.table(data, "prompts", split))}
    return [rows[identifier] for identifier in sorted(rows)][:n_prompts]


def sampled(params: Params, rows: Sequence[Row], note: Note) -> list[list[Candidate]]:
    """`ppo.best_of_n.n` responses of models/sft to each row."""
    from ..evaluation.generate import cached_generate
    from ..evaluation.models import load_tokenizer
    from ..evaluation.sampling import Request, Sampling, seed_of
    from ..rendering import prompt_ids

    settings, hardware, device = params.ppo.best_of_n, params.hardware, resolve_device(params)
    tokenizer = load_tokenizer(paths.SFT_MODEL)
    requests = []
    for row in rows:
        ids, identifier = prompt_ids(tokenizer, row["prompt"]), row["extra_info"]["prompt_id"]
        requests += [Request(ids, seed_of(params.seed, identifier, number)) for number in range(settings.n)]
    sampling = Sampling(
        engine={"auto": "vllm" if device == "cuda" else "torch"}.get(settings.engine, settings.engine),
        max_tokens=params.data.max_response_tokens,
        temperature=settings.temperature,
        device=device,
        dtype=hardware.dtype if device == "cuda" else "float32",
        tensor_parallel_size=hardware.tensor_parallel_size,
        gpu_memory_utilization=params.ppo.rollout.gpu_memory_utilization,
    )
    note(f"sampling {len(requests)} responses with {sampling.engine}")
    answers = iter(cached_generate(paths.SFT_MODEL, requests, sampling))
    groups = [[next(answers) for _ in range(settings.n)] for _ in rows]
    return [
        [Candidate(answer.text, answer) for answer in group if answer.finished and answer.text.strip()]
        for group in groups
    ]


def logged(rows: Sequence[Row], split: str, data: Path = paths.VALIDATED) -> list[list[Candidate]]:
    """The different responses that the preferences table holds for each row's prompt."""
    texts: dict[str, dict[str, None]] = {}
    for pair in _read(paths.table(data, "preferences", split)):
        texts.setdefault(pair["prompt_id"], {}).update({pair["chosen"]: None, pair["rejected"]: None})
    groups = (texts.get(row["extra_info"]["prompt_id"], {}) for row in rows)
    return [[Candidate(text, None) for text in group if text.strip()] for group in groups]


def best_of(params: Params, rows: Sequence[Row], groups: Sequence[Sequence[Candidate]]) -> list[Chosen]:
    """The best candidate of each row that has at least two; the first of equals."""
    kept = [(row, group) for row, group in zip(rows, groups, strict=True) if len(group) > 1]
    flat = [(row, candidate) for row, group in kept for candidate in group]
    if not flat:
        return []
    scores = iter(_scores(params, [row for row, _ in flat], [candidate for _, candidate in flat]))
    found = []
    for row, group in kept:
        worth = [float(next(scores)) for _ in group]
        best = max(range(len(group)), key=worth.__getitem__)
        found.append(Chosen(row, group[best].text, worth[best], fmean(worth), len(group)))
    return found


def _scores(params: Params, rows: Sequence[Row], candidates: Sequence[Candidate]) -> Sequence[float]:
    reward = params.ppo.reward
    if reward.source != "reward_model":
        from ..rewards.loading import load_rule, scored

        path = paths.workspace() / str(reward.function_path)
        named = (
            f"rule:{reward.rule}" if reward.source == "rule" else f"function:{path}:{reward.function_name}"
        )
        rule = load_rule(named)
        return [scored(rule, row, one.text) for row, one in zip(rows, candidates, strict=True)]
    from ..evaluation.judges import Judge
    from ..evaluation.models import device_of, dtype_of, load_tokenizer

    device = resolve_device(params)
    dtype = params.hardware.dtype if device == "cuda" else "float32"
    judge = Judge(paths.REWARD_MODEL, device_of(device), dtype_of(dtype))
    if candidates[0].response is None:
        scores, _ = judge.score_texts([row["prompt"] for row in rows], [one.text for one in candidates])
    else:
        responses = [one.response for one in candidates]
        scores = judge.score_samples(rows, responses, load_tokenizer(paths.SFT_MODEL))
    return list(scores)


def _read(file: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    if not file.is_file():
        raise DataError(f"{file} does not exist; run `dvc repro validate_data` first")
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows
