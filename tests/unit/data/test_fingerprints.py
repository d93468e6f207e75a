"""Word n-gram hashes and MinHash bands: counted by hand, and the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from rlhf_pipeline.data.gate.fingerprints import BANDS, ROWS, Shingler, bands, jaccard


def test_a_text_of_n_words_has_n_minus_two_three_grams() -> None:
    hashes, counts = Shingler(3).hashes(["a b c d e", "a b", "", "b c d"])
    assert counts.tolist() == [3, 1, 1, 1]
    assert len(hashes) == 6
    assert hashes[1] == hashes[5]  # "b c d" inside the first text
    assert len(set(hashes.tolist())) == 5


def test_case_and_punctuation_do_not_count_and_order_does() -> None:
    hashes, _ = Shingler(3).hashes(["One, two THREE!", "one two three", "three two one"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_scripts_without_spaces_are_cut_into_letters() -> None:
    _, counts = Shingler(3).hashes(["\u4e3a\u4ec0\u4e48\u5462", "caf\u00e9 \u4f60\u597d"])
    assert counts.tolist() == [2, 1]


def test_hashes_do_not_depend_on_the_batch() -> None:
    together, _ = Shingler(2).hashes(["a b c", "d e"])
    alone, _ = Shingler(2).hashes(["d e"])
    assert together[2] == alone[0]
    # Computed once and written down: a change would silently part old fingerprints from new ones.
    assert alone.tolist() == [17034995851208026794]


def test_jaccard_by_hand() -> None:
    a, b = (Shingler(1).hashes([text])[0] for text in ("a b c d", "c d e e"))
    assert jaccard(a, b) == pytest.approx(2 / 5)
    assert jaccard(a, a) == 1.0


def test_bands_collide_as_often_as_the_formula_says() -> None:
    rng = np.random.default_rng(0)
    trials, share = 400, 0.8
    hits = 0
    for _ in range(trials):
        # 80 shared of 100 distinct hashes: Jaccard 0.8
        pool = rng.integers(0, 2**63, 100, dtype=np.uint64)
        both = np.concatenate([pool[:90], pool[10:]])
        keys = bands(both, np.array([90, 90]))
        hits += bool((keys[0] == keys[1]).any())
    expected = 1 - (1 - share**ROWS) ** BANDS
    assert hits / trials == pytest.approx(
        expected, abs=4 * (expected * (1 - expected) / trials) ** 0.5 + 0.005
    )


def test_equal_texts_share_every_band_and_unrelated_ones_none() -> None:
    hashes, counts = Shingler(3).hashes(
        ["one two three four five", "one two three four five", "six seven eight nine ten"]
    )
    keys = bands(hashes, counts)
    assert (keys[0] == keys[1]).all()
    assert not (keys[0] == keys[2]).any()
