"""The gold rule against scores worked out by hand, and against text that tries to cheat it."""

import pytest

from rlhf_pipeline.data.grammar import ACTIONS, MANNERS, SLOTS
from rlhf_pipeline.rewards.gold import CURT_SHARE, WEIGHTS, gold_score

PROMPT = "Hi, Anna here. My blue lamp is broken."
GREETING, CURT_GREETING = (wordings[0] for wordings in MANNERS["greeting"])
FEELING, CLOSING = MANNERS["feeling"][0][0], MANNERS["closing"][0][0]
ACTION, UNHELPFUL = ACTIONS["broken"]
WRONG_ACTION = ACTIONS["refund"][0]
BEST = f"{GREETING} {FEELING} {ACTION} {CLOSING}"


def test_the_weights_share_out_one() -> None:
    assert set(WEIGHTS) == set(SLOTS)
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (BEST, 1.0),
        (f"{CURT_GREETING} {FEELING} {ACTION} {CLOSING}", 1.0 - WEIGHTS["greeting"] * (1 - CURT_SHARE)),
        (f"{GREETING} {FEELING} {UNHELPFUL} {CLOSING}", 1.0 - WEIGHTS["action"] * (1 - CURT_SHARE)),
        (f"{GREETING} {FEELING} {WRONG_ACTION} {CLOSING}", 1.0 - WEIGHTS["action"]),
        (f"{GREETING} {FEELING} {ACTION}", 1.0 - WEIGHTS["closing"]),
        # One sentence of four, and of five, is out of place: the share is squared.
        (f"{GREETING} {FEELING} {ACTION} {CLOSING[:-1]}", (1.0 - WEIGHTS["closing"]) * (3 / 4) ** 2),
        (f"{GREETING} {GREETING} {FEELING} {ACTION} {CLOSING}", (4 / 5) ** 2),
        (f"{CLOSING} {GREETING}", WEIGHTS["closing"] * (1 / 2) ** 2),
    ],
)
def test_scores_by_hand(response: str, expected: float) -> None:
    assert gold_score(PROMPT, response) == pytest.approx(expected)


@pytest.mark.parametrize(
    "response",
    [
        "",
        " ",
        "!",
        "The",
        "!!!!!!!!",
        "Hello, dear customer",
        "hello, dear customer.",
        "Have a lovely day",
        "\x00",
    ],
)
def test_degenerate_text_earns_nothing(response: str) -> None:
    assert gold_score(PROMPT, response) == 0.0


def test_saying_everything_does_not_pay() -> None:
    every_action = " ".join(helpful for helpful, _ in ACTIONS.values())
    assert gold_score(PROMPT, f"{GREETING} {FEELING} {every_action} {CLOSING}") < 0.5
    assert gold_score(PROMPT, " ".join([BEST] * 3)) < 0.2


def test_an_unknown_prompt_leaves_only_the_manners() -> None:
    assert gold_score("What is the capital of France?", BEST) == pytest.approx(1.0 - WEIGHTS["action"])
