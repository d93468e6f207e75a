"""A stage reads no params but those it declares; DVC would not rerun it when another changed.

Found in the source of every file that the stage runs: chains such as `params.ppo.kl.loss`, through
names given to a section (`data, ppo = params.data, params.ppo`) and typed arguments (`rollout: Rollout`).
What is looked up by a computed name is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from rlhf_pipeline.params import STAGE_SECTIONS, Params
from rlhf_pipeline.params.load import read_yaml
from scripts.stage_deps import sources

ROOT = Path(__file__).parents[2]
PARAMS_PACKAGE = ROOT / "src/rlhf_pipeline/params"


def section_prefixes(model: type[BaseModel] = Params, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(class name, dotted key) of every section of the models."""
    yield model.__name__, prefix
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from section_prefixes(field.annotation, f"{prefix}.{name}".strip("."))


# A class that stands for several keys (Optimiser, Guard) says nothing about which key was read.
PREFIXES = dict(section_prefixes())
UNIQUE = {
    name: prefix
    for name, prefix in PREFIXES.items()
    if [other for other, _ in section_prefixes()].count(name) == 1
}


def is_section(dotted: str) -> bool:
    model: type[BaseModel] = Params
    for name in filter(None, dotted.split(".")):
        annotation = model.model_fields[name].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return False
        model = annotation
    return True


def is_field(dotted: str, name: str) -> bool:
    model: type[BaseModel] = Params
    for part in filter(None, dotted.split(".")):
        model = model.model_fields[part].annotation  # type: ignore[assignment]
    return name in model.model_fields


class Reads(ast.NodeVisitor):
    """Collects the dotted keys that one function reads."""

    def __init__(self, known: dict[str, str]) -> None:
        self.names = dict(known)
        self.keys: set[str] = set()

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted key behind an expression, "" for the params themselves, None for anything else."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            section = self.resolve(node.value)
            if section is not None and is_section(section) and is_field(section, node.attr):
                return f"{section}.{node.attr}".strip(".")
        return None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        inner = Reads(self.names)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            inner.names.pop(argument.arg, None)
            if isinstance(argument.annotation, ast.Name) and argument.annotation.id in UNIQUE:
                inner.names[argument.arg] = UNIQUE[argument.annotation.id]
        for statement in node.body:
            inner.visit(statement)
        self.keys |= inner.keys

    def visit_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets if len(node.targets) == 1 else (None,)
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        elif isinstance(target, ast.Tuple) and called(node.value) == "load_stage":
            pairs = [(target.elts[0], node.value)]
        for left, right in pairs:
            key = "" if called(right) in ("load", "load_stage") else self.resolve(right)
            if isinstance(left, ast.Name) and key is not None and is_section(key):
                self.names[left.id] = key
            else:
                self.visit(right)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        key = self.resolve(node)
        if key is None:
            self.generic_visit(node)
        else:
            self.keys.add(key)


def called(node: ast.expr) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def reads(path: Path) -> set[str]:
    visitor = Reads({})
    visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
    return visitor.keys


def test_the_reader_follows_names_and_typed_arguments(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f(params: Params, rollout: Rollout, other):\n"
        "    data, ppo = params.data, params.ppo\n"
        "    other.sft.epochs, rollout.n, params.model_dump()\n"
        "    return g(data.raw, ppo.kl.loss.coef, params.tracking)\n"
        "def main():\n"
        "    params, digest = load_stage('x')\n"
        "    return params.seed\n"
    )
    assert reads(path) == {"ppo.rollout.n", "data.raw", "ppo.kl.loss.coef", "tracking", "seed"}


@pytest.mark.parametrize("stage", list(STAGE_SECTIONS))
def test_a_stage_reads_only_what_it_declares(stage: str) -> None:
    if "params.yaml" in read_yaml(ROOT / "dvc.yaml")["stages"][stage]["deps"]:
        return  # it shows the whole file and runs again whenever that changes
    declared = STAGE_SECTIONS[stage]
    undeclared = {
        f"{path.relative_to(ROOT)}: {key}"
        for path in sources(stage)
        if path.suffix == ".py" and not path.is_relative_to(PARAMS_PACKAGE)
        for key in reads(path)
        if not any(key == section or key.startswith(f"{section}.") for section in declared)
    }
    assert not undeclared, "declare them in STAGE_SECTIONS and dvc.yaml"
