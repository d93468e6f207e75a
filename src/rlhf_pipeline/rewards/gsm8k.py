"""Checks the final number of a worked answer, as GSM8K marks it (Cobbe et al. 2021: `#### 42`).

The number after the last `####` counts; a response without the mark is judged by its last number.
The steps before it are not looked at.
"""

from __future__ import annotations

import re
from decimal import Decimal

MARK = "####"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def gsm8k_score(response: str, ground_truth: str) -> float:
    """1.0 when the response's final number equals that of `ground_truth` (a number or a full solution)."""
    found, expected = final_number(response), final_number(ground_truth)
    return float(found is not None and found == expected)


def final_number(text: str) -> Decimal | None:
    """The number after the last `####`, or else the last number in the text; None without any."""
    _, mark, tail = text.rpartition(MARK)
    numbers = NUMBER.findall(tail)
    if not numbers:
        return None
    number = numbers[0] if mark else numbers[-1]
    return Decimal(number.replace(",", ""))
