"""What responses look like without asking a judge: diversity, likeness to each other, repetition, refusals.

Words are split at white space after lower-casing. Token lengths come from the sampler, not from here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

REPEATED_NGRAM = 3
_REFUSAL = re.compile(
    r"^\W*(i'?m sorry|i am sorry|sorry,|i apologi[sz]e|i can(no|')t|i can not|i won'?t|i will not|"
    r"i'?m (unable|not able)|i am (unable|not able)|as an ai\b|unfortunately, i)",
    re.IGNORECASE,
)


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """The word n-grams of a text, in order."""
    words = text.lower().split()
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams over all n-grams of all texts (Li et al. 2016); 0.0 when there is none.

    Falls with the amount of text, so compare equal numbers of responses only.
    """
    found = [gram for text in texts for gram in ngrams(text, n)]
    return len(set(found)) / len(found) if found else 0.0


def self_similarity(texts: Sequence[str], n: int = 2) -> float:
    """Mean cosine between the n-gram counts of two different texts; 1.0 says all read the same.

    With unit vectors u_i the mean over pairs is (|sum u_i|^2 - m) / (m (m - 1)), m the number of texts
    with at least one n-gram; 0.0 when fewer than two have any.
    """
    vectors = [counts for text in texts if (counts := Counter(ngrams(text, n)))]
    if len(vectors) < 2:
        return 0.0
    weights: dict[tuple[str, ...], float] = {}
    for counts in vectors:
        norm = math.sqrt(sum(count**2 for count in counts.values()))
        for gram, count in counts.items():
            weights[gram] = weights.get(gram, 0.0) + count / norm
    m = len(vectors)
    return (sum(weight**2 for weight in weights.values()) - m) / (m * (m - 1))


def repetition(text: str, n: int = REPEATED_NGRAM) -> float:
    """Share of a text's n-grams that stood in it before, in [0, 1); 0.0 when it is shorter than n words."""
    found = ngrams(text, n)
    return 1.0 - len(set(found)) / len(found) if found else 0.0


def is_refusal(text: str) -> bool:
    """Whether a response opens with one of the usual English words of refusal."""
    return bool(_REFUSAL.match(text))


def text_metrics(texts: Sequence[str], suffix: str) -> dict[str, float]:
    """Flat figures over a policy's responses; `suffix` (sft, policy) ends every name."""
    count = len(texts)
    return {
        f"distinct_1_{suffix}": distinct_n(texts, 1),
        f"distinct_2_{suffix}": distinct_n(texts, 2),
        f"self_similarity_{suffix}": self_similarity(texts),
        f"repetition_{suffix}": sum(repetition(text) for text in texts) / count,
        f"refusal_rate_{suffix}": sum(is_refusal(text) for text in texts) / count,
        f"empty_rate_{suffix}": sum(not text.strip() for text in texts) / count,
    }
