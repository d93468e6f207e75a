"""The grammar: every request is recognised, no sentence means two things."""

import pytest

from rlhf_pipeline.data import grammar


@pytest.mark.parametrize(
    ("intent", "wording"),
    [(intent, wording) for intent, wordings in grammar.REQUESTS.items() for wording in wordings],
)
def test_every_request_shows_its_intent(intent: str, wording: str) -> None:
    prompt = grammar.request("Dear desk,", "Viktor", "yellow", "kettle", wording)
    assert grammar.intent_of(prompt) == intent


@pytest.mark.parametrize("prompt", ["", "Hello there.", "My old wooden blue lamp is late, I fear", "late"])
def test_other_text_has_no_intent(prompt: str) -> None:
    assert grammar.intent_of(prompt) is None


def test_every_sentence_has_one_meaning_and_one_end_mark() -> None:
    wordings = [text for pair in grammar.MANNERS.values() for texts in pair for text in texts]
    wordings += [text for pair in grammar.ACTIONS.values() for text in pair]
    assert len(wordings) == len(set(wordings)) == len(grammar.MEANINGS)
    assert all(sum(text.count(mark) for mark in ".!?") == 1 and text[-1] in ".!?" for text in wordings)
