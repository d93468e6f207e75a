"""prefect.yaml against the flows and against what `make ui` serves."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, get_args

import pytest

from rlhf_pipeline.params import STAGE_SECTIONS
from rlhf_pipeline.params.load import read_yaml

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = read_yaml(ROOT / "prefect.yaml")["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_entrypoints_are_flows(deployment: dict[str, Any]) -> None:
    file, name = deployment["entrypoint"].split(":")
    functions = [
        node for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    [function] = [node for node in functions if node.name == name]
    assert any("flow" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_the_same_deployments_as_make_ui() -> None:
    source = (ROOT / "flows/serve.py").read_text()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    served = {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "to_deployment"
        and isinstance(call.args[0], ast.Constant)
    }
    assert served == {deployment["name"] for deployment in DEPLOYMENTS}


def test_the_nightly_schedule_is_off() -> None:
    [nightly] = [deployment for deployment in DEPLOYMENTS if deployment["name"] == "nightly"]
    assert [schedule["active"] for schedule in nightly["schedules"]] == [False]
    assert nightly["tags"] == ["scheduled"]


def test_the_pages_offer_every_stage() -> None:
    from flows.pipeline import StageName

    assert list(get_args(StageName)) == list(STAGE_SECTIONS)
