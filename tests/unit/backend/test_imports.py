"""Shims that wait for an import, and what is recorded of them."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rlhf_pipeline.backend import record
from rlhf_pipeline.backend.imports import when_imported


@pytest.fixture
def new_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes an importable module that nobody imported yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(record, "_shims", {})
    written: list[str] = []

    def write(name: str) -> str:
        (tmp_path / f"{name}.py").write_text("answer = 1\n")
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def state_of(name: str) -> str:
    return next(shim.state for shim in record.status() if shim.name == name)


def answer_2(module: ModuleType) -> None:
    module.answer = 2  # type: ignore[attr-defined]


def test_a_shim_waits_for_the_import_and_imports_nothing_itself(new_module: Callable[[str], str]) -> None:
    name = new_module("backend_waits")
    when_imported(name, "the answer", answer_2)
    assert name not in sys.modules
    assert state_of("the answer") == "waiting"
    assert importlib.import_module(name).answer == 2
    assert state_of("the answer") == "applied"


def test_a_module_that_is_already_there_is_changed_at_once(new_module: Callable[[str], str]) -> None:
    module = importlib.import_module(new_module("backend_present"))
    when_imported("backend_present", "the answer", answer_2)
    assert module.answer == 2


def test_a_shim_that_fails_stops_the_import_and_is_recorded(new_module: Callable[[str], str]) -> None:
    name = new_module("backend_fails")

    def change(module: ModuleType) -> None:
        raise AttributeError("no such function")

    when_imported(name, "the answer", change)
    with pytest.raises(AttributeError, match="no such function"):
        importlib.import_module(name)
    shim = record.status()[0]
    assert (shim.state, shim.target) == ("failed", name)
    assert "no such function" in shim.detail


def test_apply_records_a_failure_and_raises_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_shims", {})
    with pytest.raises(ZeroDivisionError):
        record.apply("division", "somewhere", lambda: 1 // 0)  # type: ignore[arg-type]
    assert record.status() == (
        record.Shim(
            "division", "somewhere", "failed", "ZeroDivisionError: integer division or modulo by zero"
        ),
    )
