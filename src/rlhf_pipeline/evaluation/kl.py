"""KL(policy || reference) in nats from the policy's own samples, per token and per sequence.

Three estimators on log r = log p_ref - log p_policy of the sampled tokens (Schulman 2020):
k1 = -log r (unbiased, can be negative), k2 = (log r)^2 / 2, k3 = r - 1 - log r (unbiased, never
negative). Where the whole distributions are known, their exact per-token KL has no sampling noise of
the token itself. Computing log-probabilities is scoring.py's job.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .statistics import Clusters, Floats, clusters, standard_error


def estimators(policy_logprobs: Floats, ref_logprobs: Floats) -> dict[str, Floats]:
    """k1, k2 and k3 for each token; log-probabilities in nats, any equal shape, float64."""
    log_ratio = np.asarray(ref_logprobs, dtype=np.float64) - np.asarray(policy_logprobs, dtype=np.float64)
    return {"k1": -log_ratio, "k2": 0.5 * log_ratio**2, "k3": np.expm1(log_ratio) - log_ratio}


def kl_metrics(
    policy_logprobs: Sequence[Floats],
    ref_logprobs: Sequence[Floats],
    exact: Sequence[Floats],
    prompts: Sequence[str],
) -> dict[str, float]:
    """The flat KL figures of a set of responses, in nats, each with its standard error (`_se`).

    One array [response tokens, EOS included] per response; `prompts` names each response's prompt,
    the cluster of the standard errors. `kl_per_token` is k3 over all tokens, `kl_per_sequence` its
    sum over a response; `_k1` and `_exact` (summed over the vocabulary) name the other estimators.
    """
    rows = [estimators(ours, theirs) for ours, theirs in zip(policy_logprobs, ref_logprobs, strict=True)]
    lengths = np.array([len(row["k1"]) for row in rows], dtype=np.float64)
    result: dict[str, float] = {}
    per_row = {
        "k1": np.array([row["k1"].sum() for row in rows]),
        "k3": np.array([row["k3"].sum() for row in rows]),
        "exact": np.array([values.sum() for values in exact]),
    }
    names = {"k3": "", "k1": "_k1", "exact": "_exact"}
    for estimator, suffix in names.items():
        sums = clusters(per_row[estimator], prompts)
        tokens = Clusters(sums.sums, clusters(lengths, prompts).sums)
        result |= _with_error(f"kl_per_token{suffix}", tokens)
        result |= _with_error(f"kl_per_sequence{suffix}", sums)
    return result


def _with_error(name: str, data: Clusters) -> dict[str, float]:
    return {name: float(data.sums.sum() / data.counts.sum()), f"{name}_se": standard_error(data)}
