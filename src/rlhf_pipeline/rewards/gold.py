"""The gold rule of the synthetic task: how good a desk reply is, from 0 to 1.

A reply earns a weight for each of its four parts (greeting, feeling, action, closing), in full when
kind, in part when curt; an action that answers another request earns nothing. The sum is multiplied
by the squared share of sentences that are whole, known and in their place, so that cut, garbled,
repeated or rambling text scores low. Smooth and additive in small changes; pure Python.
"""

from __future__ import annotations

import re

from ..data.grammar import MEANINGS, SLOTS, Slot, intent_of

WEIGHTS: dict[Slot, float] = {"greeting": 0.2, "feeling": 0.2, "action": 0.4, "closing": 0.2}
CURT_SHARE = 0.1
SENTENCE = re.compile(r"[^.!?]*[.!?]|[^.!?]+$")


def gold_score(prompt: str, response: str) -> float:
    """The worth of `response` to the customer's message `prompt`, in [0, 1].

    `prompt` is the user's text without chat template; special tokens must be stripped from both.
    """
    intent = intent_of(prompt)
    sentences = [text for text in (part.strip() for part in SENTENCE.findall(response)) if text]
    earned, in_place, next_slot = 0.0, 0, 0
    for sentence in sentences:
        meaning = MEANINGS.get(sentence)
        if meaning is None or SLOTS.index(meaning.slot) < next_slot:
            continue
        in_place += 1
        next_slot = SLOTS.index(meaning.slot) + 1
        if meaning.intent in (None, intent):
            earned += WEIGHTS[meaning.slot] * (1.0 if meaning.kind else CURT_SHARE)
    return earned * (in_place / len(sentences)) ** 2 if sentences else 0.0
