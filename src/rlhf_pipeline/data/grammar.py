"""The small world of the synthetic task: what customers ask a shop and what its desk answers.

Holds the sentences and what each is worth; writing data from them is `synthetic.py`'s job, scoring
a reply is `rewards/gold.py`'s. Pure Python, nothing is read or drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Slot = Literal["greeting", "feeling", "action", "closing"]
SLOTS: tuple[Slot, ...] = ("greeting", "feeling", "action", "closing")

OPENERS = ("Hi,", "Hello,", "Good morning,", "Dear desk,")
NAMES = (
    "Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo", "Ida", "Jonas", "Kira", "Leo",
    "Mara", "Nils", "Olga", "Paul", "Rosa", "Sam", "Tina", "Viktor",
)  # fmt: skip
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
ITEMS = (
    "lamp", "chair", "table", "clock", "kettle", "mirror", "jacket", "bag", "phone", "radio", "bike",
    "book", "cup", "plate", "rug", "tent",
)  # fmt: skip

# Each wording has one `{item}`. No wording belongs to two intents.
REQUESTS: dict[str, tuple[str, ...]] = {
    "late": ("My {item} is late.", "Why is my {item} so late?"),
    "broken": ("My {item} is broken.", "My {item} arrived broken."),
    "refund": ("I want a refund for my {item}.", "Please refund my {item}."),
    "stock": ("Do you have a {item} in stock?", "Is the {item} still in stock?"),
    "cancel": ("I want to cancel my {item}.", "Please cancel my {item}."),
}
INTENTS = tuple(REQUESTS)

# Kind and curt wordings of the slots that fit every request.
MANNERS: dict[Slot, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "greeting": (("Hello, dear customer.", "Thank you for writing."), ("What is it now?", "Yes, what?")),
    "feeling": (
        ("I am very sorry about this.", "I am glad to help."),
        ("That is not my fault.", "You ask too much."),
    ),
    "closing": (("Have a lovely day!", "Kind wishes from us all!"), ("Do not write again.", "That is all.")),
}
# The helpful and the unhelpful answer to each request.
ACTIONS: dict[str, tuple[str, str]] = {
    "late": ("I will trace the late parcel.", "Things come late here."),
    "broken": ("I will replace the broken one.", "Things get broken here."),
    "refund": ("I will send your refund today.", "There is no refund here."),
    "stock": ("I will check our stock now.", "Look at the stock yourself."),
    "cancel": ("I will cancel your order today.", "Nobody can cancel here."),
}


@dataclass(frozen=True)
class Meaning:
    """What one sentence says: its slot, whether it is kind (or helpful), the intent it answers."""

    slot: Slot
    kind: bool
    intent: str | None


def _sentences() -> Iterator[tuple[str, Meaning]]:
    for slot, (kind_wordings, curt_wordings) in MANNERS.items():
        for wording in kind_wordings:
            yield wording, Meaning(slot, True, None)
        for wording in curt_wordings:
            yield wording, Meaning(slot, False, None)
    for intent, (helpful, unhelpful) in ACTIONS.items():
        yield helpful, Meaning("action", True, intent)
        yield unhelpful, Meaning("action", False, intent)


MEANINGS: dict[str, Meaning] = dict(_sentences())


def request(opener: str, name: str, colour: str, item: str, wording: str) -> str:
    """One customer message, such as "Hi, Anna here. My blue lamp is late."."""
    return f"{opener} {name} here. {wording.format(item=f'{colour} {item}')}"


def intent_of(prompt: str) -> str | None:
    """The intent whose wording ends the prompt, or None for a text that this grammar did not write."""
    for intent, wordings in REQUESTS.items():
        for wording in wordings:
            before, after = wording.split("{item}")
            _, found, tail = prompt.strip().rpartition(before)
            if found and tail.endswith(after) and len(tail[: len(tail) - len(after)].split()) == 2:
                return intent
    return None


def corpus() -> list[str]:
    """Every word of the task in context, for training a tokenizer; the order is fixed."""
    texts = [*MEANINGS, " ".join([*MEANINGS, *MEANINGS])]
    for number, name in enumerate(NAMES):
        for place, wording in enumerate(wording for wordings in REQUESTS.values() for wording in wordings):
            opener = OPENERS[(number + place) % len(OPENERS)]
            colour = COLOURS[(number + place) % len(COLOURS)]
            texts.append(request(opener, name, colour, ITEMS[(number + place) % len(ITEMS)], wording))
    return texts
