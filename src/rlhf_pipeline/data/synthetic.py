"""Makes the synthetic task's data: prompts, imperfect demonstrations, noisy preferences, all from one seed.

Preferences vary everything the gold rule looks at (manners, the right action, cut, garbled, repeated,
missing or rambling text), and are labelled by a Bradley-Terry annotator on the gold rule. Splitting,
prompt ids and Parquet are the adapters' job; the sentences are in `grammar.py`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

from ..errors import ParamsError
from ..rewards.gold import gold_score
from . import grammar

SOURCE = "synthetic"
ABILITY = "desk_reply"
DEMONSTRATION_KIND = 0.5
DEMONSTRATION_RIGHT_ACTION = 0.95
EDIT_SHARE = 0.85
EDIT_SPOILS = 0.25
CHANGE_OF_INTENT = 0.6
SPOILT_SHARE = 0.35
SMALLEST_GOLD_GAP = 0.08
ANNOTATOR_SHARPNESS = 25.0
LONGEST_REPLY_WORDS = 26

Rows = dict[str, list[dict[str, Any]]]


def make(n_prompts: int, demonstrations_per_prompt: int, pairs_per_prompt: int, seed: int) -> Rows:
    """The rows of the three tables, the same for the same arguments.

    Returns:
        preferences: prompt (messages), chosen, rejected, source;
        sft: messages, source;
        prompts: prompt (messages), ground_truth (the intent), ability.

    Raises:
        ParamsError: when the grammar cannot write that many different prompts.
    """
    rng = random.Random(f"synthetic:{seed}")
    preferences, demonstrations, prompts = [], [], []
    for prompt, intent in _requests(n_prompts, rng):
        messages = [{"role": "user", "content": prompt}]
        prompts.append({"prompt": messages, "ground_truth": intent, "ability": ABILITY})
        for _ in range(demonstrations_per_prompt):
            reply = _reply(intent, DEMONSTRATION_KIND, DEMONSTRATION_RIGHT_ACTION, rng)
            answer = {"role": "assistant", "content": " ".join(reply)}
            demonstrations.append({"messages": [*messages, answer], "source": SOURCE})
        for _ in range(pairs_per_prompt):
            chosen, rejected = _pair(prompt, intent, rng)
            preferences.append({"prompt": messages, "chosen": chosen, "rejected": rejected, "source": SOURCE})
    return {"preferences": preferences, "sft": demonstrations, "prompts": prompts}


def _requests(n_prompts: int, rng: random.Random) -> list[tuple[str, str]]:
    """Different prompts with their intents, intents in equal shares."""
    parts = list(itertools.product(grammar.OPENERS, grammar.NAMES, grammar.COLOURS, grammar.ITEMS))
    most = len(parts) * len(grammar.INTENTS) * min(len(wordings) for wordings in grammar.REQUESTS.values())
    if n_prompts > most:
        raise ParamsError(
            f"data.synthetic.n_prompts: {n_prompts} different prompts asked for, the grammar writes {most}"
        )
    drawn = []
    for place, intent in enumerate(grammar.INTENTS):
        share = (n_prompts + len(grammar.INTENTS) - 1 - place) // len(grammar.INTENTS)
        wordings = grammar.REQUESTS[intent]
        for number in rng.sample(range(len(parts) * len(wordings)), share):
            which, wording = divmod(number, len(wordings))
            drawn.append((grammar.request(*parts[which], wordings[wording]), intent))
    rng.shuffle(drawn)
    return drawn


def _sentence(slot: grammar.Slot, intent: str, kind: bool, rng: random.Random) -> str:
    if slot == "action":
        return grammar.ACTIONS[intent][0 if kind else 1]
    return rng.choice(grammar.MANNERS[slot][0 if kind else 1])


def _reply(intent: str, kind: float, right_action: float, rng: random.Random) -> list[str]:
    """Four sentences, each kind with probability `kind`, the action the right one with `right_action`."""
    if rng.random() >= right_action:
        intent = rng.choice([other for other in grammar.INTENTS if other != intent])
    return [_sentence(slot, intent, rng.random() < kind, rng) for slot in grammar.SLOTS]


def _pair(prompt: str, intent: str, rng: random.Random) -> tuple[str, str]:
    """Two replies of clearly different gold, the better one first but for the annotator's slips.

    Most pairs are a reply and an edit of it: only such pairs teach a reward model in a hundred steps
    that the action must answer this request, which no sentence shows by itself.
    """
    while True:
        first = _reply(intent, rng.uniform(0.2, 0.9), 0.75, rng)
        if rng.random() < EDIT_SHARE:
            spoils = rng.random() < EDIT_SPOILS
            second = rng.choice(DEFECTS)(first, rng) if spoils else _one_change(first, intent, rng)
        else:
            other = _reply(intent, rng.uniform(0.2, 0.9), 0.75, rng)
            second = rng.choice(DEFECTS)(other, rng) if rng.random() < SPOILT_SHARE else other
        texts = [" ".join(" ".join(reply).split()[:LONGEST_REPLY_WORDS]) for reply in (first, second)]
        gap = gold_score(prompt, texts[0]) - gold_score(prompt, texts[1])
        if abs(gap) >= SMALLEST_GOLD_GAP:
            break
    first_wins = rng.random() < 1 / (1 + math.exp(-ANNOTATOR_SHARPNESS * gap))
    return (texts[0], texts[1]) if first_wins else (texts[1], texts[0])


def _one_change(reply: list[str], intent: str, rng: random.Random) -> list[str]:
    """The reply with one sentence of other manners, or with the right action for a wrong one or back."""
    changed = list(reply)
    if rng.random() < CHANGE_OF_INTENT:
        place, was = grammar.SLOTS.index("action"), grammar.MEANINGS[reply[grammar.SLOTS.index("action")]]
        other = rng.choice([name for name in grammar.INTENTS if name != intent])
        changed[place] = _sentence("action", other if was.intent == intent else intent, was.kind, rng)
    else:
        place = rng.randrange(len(reply))
        was = grammar.MEANINGS[reply[place]]
        changed[place] = _sentence(was.slot, was.intent or intent, not was.kind, rng)
    return changed


def _cut(reply: list[str], rng: random.Random) -> list[str]:
    words = " ".join(reply).split()
    return words[: rng.randrange(1, len(words))]


def _unended(reply: list[str], rng: random.Random) -> list[str]:
    return [*reply[:-1], reply[-1][:-1]]


def _missing(reply: list[str], rng: random.Random) -> list[str]:
    keep = sorted(rng.sample(range(len(reply)), rng.randrange(1, len(reply))))
    return [reply[place] for place in keep]


def _repeated(reply: list[str], rng: random.Random) -> list[str]:
    place = rng.randrange(len(reply))
    return [*reply[: place + 1], *[reply[place]] * rng.randrange(1, 3), *reply[place + 1 :]]


def _swapped(reply: list[str], rng: random.Random) -> list[str]:
    return rng.sample(reply, len(reply))


def _garbled(reply: list[str], rng: random.Random) -> list[str]:
    """One or two sentences lose a word, gain a stray one or have their words shuffled."""
    spoilt = list(reply)
    for place in rng.sample(range(len(reply)), rng.randrange(1, 3)):
        words = spoilt[place].split()
        fault = rng.randrange(3)
        if fault == 0:
            del words[rng.randrange(len(words))]
        elif fault == 1:
            words.insert(rng.randrange(len(words)), rng.choice(" ".join(grammar.MEANINGS).split()))
        else:
            rng.shuffle(words)
        spoilt[place] = " ".join(words)
    return spoilt


def _rambling(reply: list[str], rng: random.Random) -> list[str]:
    return [*reply, *rng.choices(list(grammar.MEANINGS), k=2)]


def _one_word(reply: list[str], rng: random.Random) -> list[str]:
    return [rng.choice(["Yes.", "No.", "Hello", "The", "I", rng.choice(reply).split()[0]])]


DEFECTS: tuple[Callable[[list[str], random.Random], list[str]], ...] = (
    _cut, _cut, _unended, _missing, _repeated, _swapped, _garbled, _garbled, _rambling, _one_word,
)  # fmt: skip
