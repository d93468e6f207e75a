"""The typed models: no hidden defaults, every key explained, docs in step, no torch to read them."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlhf_pipeline.params import STAGE_SECTIONS, Params, load
from scripts.params_docs import TARGET, render

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "transformers",
    "verl",
    "vllm",
    "ray",
    "datasets",
    "pandas",
    "great_expectations",
    "prefect",
)


def fields(
    model: type[BaseModel] = Params, prefix: str = ""
) -> Iterator[tuple[str, type[BaseModel], FieldInfo]]:
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", model, field
        for annotation in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from fields(annotation, f"{prefix}{name}.")


FIELDS = list(fields())


def test_there_are_fields_to_look_at() -> None:
    keys = {key for key, _, _ in FIELDS}
    assert {"seed", "ppo.kl.reward.target", "data.sources.kind", "guards.kl.action"} <= keys


def test_no_key_has_a_default_in_python() -> None:
    assert [key for key, _, field in FIELDS if not field.is_required()] == []


def test_every_section_is_frozen_strict_and_closed() -> None:
    expected: dict[str, Any] = {"frozen": True, "strict": True, "extra": "forbid", "allow_inf_nan": False}
    for _, model, _ in FIELDS:
        assert {key: model.model_config.get(key) for key in expected} == expected, model


def test_every_key_is_explained_once() -> None:
    def is_section(field: FieldInfo) -> bool:
        return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)

    unexplained = [
        key
        for key, _, field in FIELDS
        if not (field.annotation.__doc__ if is_section(field) else field.description)
    ]
    assert unexplained == []


def test_docs_params_md_is_up_to_date() -> None:
    expected = render(load(ROOT / "presets/tiny-cpu.yaml"))
    assert (ROOT / TARGET).read_text(encoding="utf-8") == expected, "run: make params-docs"
    for key, _, _ in FIELDS:
        assert f"`{key.replace('data.sources.', 'data.sources.0.')}`" in expected or f"## {key}\n" in expected


def test_the_sections_of_the_stages_exist() -> None:
    keys = {key for key, _, _ in FIELDS}
    for stage, sections in STAGE_SECTIONS.items():
        assert set(sections) <= keys, stage
        assert len(set(sections)) == len(sections), stage


@pytest.mark.parametrize("module", ["rlhf_pipeline.params", "rlhf_pipeline.publish", "rlhf_pipeline.records"])
def test_reading_params_and_records_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
