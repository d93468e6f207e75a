"""What the params tests share: the default preset and a way to see which problems a change causes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import parse
from rlhf_pipeline.params.load import read_yaml

Problems = Callable[[Mapping[str, Any]], list[str]]


@pytest.fixture(scope="session")
def default_file() -> Path:
    return Path(__file__).parents[3] / "presets/tiny-cpu.yaml"


@pytest.fixture(scope="session")
def default_values(default_file: Path) -> dict[str, Any]:
    return read_yaml(default_file)


@pytest.fixture
def values(default_values: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(default_values)


@pytest.fixture
def problems(values: dict[str, Any]) -> Problems:
    """The problem lines of the default params after overrides; empty when they are accepted."""

    def lines(overrides: Mapping[str, Any]) -> list[str]:
        try:
            parse(values, overrides)
        except ParamsError as error:
            return [line.strip() for line in str(error).splitlines()[1:]]
        return []

    return lines
