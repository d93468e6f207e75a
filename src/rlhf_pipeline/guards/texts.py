"""How much a batch of responses repeats, as one figure in [0, 1] for the repetition guard.

The larger of two shares: responses that read the same as another one of the batch (one-answer collapse),
and word 3-grams that stood earlier in the same response (loops).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from ..evaluation.text import repetition
from ..records import normalised


def rollout_repetition(responses: Sequence[str]) -> float:
    """The figure for one batch, to be logged as `rollout/repetition`; 0.0 for an empty batch.

    Several samples of one prompt (GRPO) count like any others: the guard compares with the run's own past.
    """
    if not responses:
        return 0.0
    counts = Counter(normalised(response) for response in responses)
    same = sum(count for count in counts.values() if count > 1) / len(responses)
    return max(same, fmean(repetition(response) for response in responses))
