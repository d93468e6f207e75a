"""How well a reward model orders preference pairs it has not seen: accuracy, breakdowns, calibration.

Everything starts from margins, score(chosen) - score(rejected); scoring the texts is scoring.py's job.
A margin of exactly zero counts one half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .statistics import Floats, flat, mean_interval

CALIBRATION_BINS = 10
HISTOGRAM_BINS = 24


def correct(margins: Floats) -> Floats:
    """1.0 for a positive margin, 0.5 for zero, 0.0 for a negative one; shape kept."""
    return np.asarray((margins > 0) + 0.5 * (margins == 0), dtype=np.float64)


def accuracy_by(labels: Sequence[str], margins: Floats) -> dict[str, dict[str, float]]:
    """Accuracy and number of pairs under each label, in the labels' order of first appearance."""
    right, names = correct(margins), np.asarray(labels)
    return {
        name: {"accuracy": float(right[names == name].mean()), "pairs": int((names == name).sum())}
        for name in dict.fromkeys(labels)
    }


def length_gap_label(chosen_tokens: int, rejected_tokens: int) -> str:
    """Which of five bands of (chosen - rejected) length a pair falls into, relative to the longer one."""
    gap = (chosen_tokens - rejected_tokens) / max(chosen_tokens, rejected_tokens, 1)
    if abs(gap) <= 0.1:
        return "about equal"
    amount = "much " if abs(gap) > 0.5 else ""
    return f"chosen {amount}longer" if gap > 0 else f"chosen {amount}shorter"


LENGTH_GAPS = ("chosen much shorter", "chosen shorter", "about equal", "chosen longer", "chosen much longer")


def calibration(margins: Floats) -> dict[str, Any]:
    """Whether sigmoid(|margin|), the Bradley-Terry probability of the favoured side, comes true.

    `bins` holds one row per tenth of [0.5, 1] that has pairs (confidence, accuracy, pairs);
    `error` is the expected calibration error (Guo et al. 2017), `brier` and `log_loss` (nats) score
    the probability that the model gave to the chosen side.
    """
    confidence = _sigmoid(np.abs(margins))
    right = correct(margins)
    index = np.minimum(((confidence - 0.5) * 2 * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    bins = [
        {
            "confidence": float(confidence[index == number].mean()),
            "accuracy": float(right[index == number].mean()),
            "pairs": int((index == number).sum()),
        }
        for number in range(CALIBRATION_BINS)
        if (index == number).any()
    ]
    error = sum(row["pairs"] * abs(row["confidence"] - row["accuracy"]) for row in bins) / len(margins)
    chosen = _sigmoid(margins)
    return {
        "bins": bins,
        "error": float(error),
        "brier": float(np.mean((1 - chosen) ** 2)),
        "log_loss": float(np.mean(np.logaddexp(0.0, -margins))),
    }


def histogram(margins: Floats) -> dict[str, list[float]]:
    """Counts of the margins between equally spaced `edges` (one more than counts)."""
    counts, edges = np.histogram(margins, bins=HISTOGRAM_BINS)
    return {"edges": [float(edge) for edge in edges], "counts": [int(count) for count in counts]}


def pair_report(
    pairs: Sequence[Mapping[str, Any]],
    margins: Floats,
    lengths: Sequence[tuple[int, int]],
    n_resamples: int,
    seed: int,
) -> tuple[dict[str, float], dict[str, Any]]:
    """The flat metrics of the preference pairs, and the details behind them for the report.

    `pairs` are rows of the preferences table, `margins` [pairs], `lengths` the tokens of chosen and rejected.
    """
    prompts = [pair["prompt_id"] for pair in pairs]
    accuracy = mean_interval(correct(margins), prompts, n_resamples, seed)
    by_gap = accuracy_by([length_gap_label(*gap) for gap in lengths], margins)
    calibrated = calibration(margins)
    metrics = {
        **flat("pair_accuracy", accuracy),
        "pair_margin": float(margins.mean()),
        "pair_calibration_error": calibrated["error"],
        "pair_log_loss": calibrated["log_loss"],
        "n_pairs": len(margins),
        # A judge that only counts words would score this, so it is the number to beat.
        "pair_accuracy_longer_wins": float(
            correct(np.array([a - b for a, b in lengths], dtype=np.float64)).mean()
        ),
    }
    details = {
        "by_source": accuracy_by([pair["source"] for pair in pairs], margins),
        "by_length_gap": {name: by_gap[name] for name in LENGTH_GAPS if name in by_gap},
        "calibration": calibrated,
        "margins": histogram(margins),
    }
    return metrics, details


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * value)), dtype=np.float64)
