"""Word n-gram hashes and MinHash bands of many texts at once, in numpy.

Pure and deterministic: the same text has the same hashes in every process. Comparing them is
near_duplicates.py's and contamination.py's job.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

# A word, or one letter of a script that is written without spaces.
UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
WORD = re.compile(f"[{UNSPACED}]|[^\\W{UNSPACED}]+")
CACHED_WORDS = 1_000_000
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
BANDS, ROWS = 10, 4
"""Two texts of Jaccard similarity s share a band with probability 1 - (1 - s^ROWS)^BANDS."""
Array = np.ndarray


class Shingler:
    """Hashes word n-grams; remembers the hashes of words it has seen."""

    def __init__(self, n_words: int) -> None:
        self._n = n_words
        self._words = _WordHashes()

    def hashes(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """uint64 n-gram hashes of all texts one after another, and their number per text.

        A text of fewer than n words counts as one n-gram, and an empty one too.
        """
        words = [WORD.findall(text.lower()) for text in texts]
        lengths = np.fromiter((len(one) for one in words), np.int64, len(words))
        known = map(self._words.__getitem__, chain.from_iterable(words))
        flat = np.fromiter(known, np.uint64, int(lengths.sum()))
        counts = np.maximum(lengths - self._n + 1, 1)
        first = np.repeat(np.cumsum(lengths) - lengths, counts)
        offset = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        left = np.repeat(lengths, counts) - offset
        padded = np.concatenate([flat, np.zeros(self._n, np.uint64)])
        found = np.zeros(len(first), np.uint64)
        for place in range(self._n):
            word = np.where(left > place, padded[np.minimum(first + offset + place, len(flat))], np.uint64(0))
            found = _mixed(found * MULTIPLIER + word + np.uint64(place))
        return found, counts


class _WordHashes(dict[str, int]):
    """Word -> 64-bit hash, filled on demand and emptied before it grows without bound."""

    def __missing__(self, word: str) -> int:
        if len(self) >= CACHED_WORDS:
            self.clear()
        encoded = word.encode()
        found = self[word] = zlib.crc32(encoded) << 32 | zlib.crc32(encoded, 0x5EED)
        return found


def _mixed(values: Any) -> Any:
    """The finaliser of splitmix64: every input bit moves every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


SEEDS = _mixed(np.arange(1, BANDS * ROWS + 1, dtype=np.uint64))
"""One permutation of the hashes each."""


def bands(hashes: Array, counts: Array) -> Array:
    """MinHash band keys, (texts, BANDS) uint64: texts that share a key are candidates.

    Source: Broder 1997 (min-wise independent permutations), Leskovec et al., Mining of Massive
    Datasets, section 3.4 (banding).
    """
    starts = np.cumsum(counts) - counts
    keys = np.zeros((len(counts), BANDS), np.uint64)
    for band in range(BANDS):
        key = np.full(len(counts), band, np.uint64)
        for row in range(ROWS):
            permuted = _mixed(hashes ^ SEEDS[band * ROWS + row])
            key = _mixed(key * MULTIPLIER + np.minimum.reduceat(permuted, starts))
        keys[:, band] = key
    return keys


def jaccard(a: Array, b: Array) -> float:
    """|a & b| / |a | b| of two sets of n-gram hashes."""
    # Python's sets: numpy's set functions cost ten times as much on some thirty elements.
    left, right = set(a.tolist()), set(b.tolist())
    return len(left & right) / len(left | right)
