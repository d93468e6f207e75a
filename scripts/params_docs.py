"""Writes docs/params.md from the typed models: `make params-docs`.

A field's text stands once, under the field; here it only becomes a table. A contract test keeps the
file in step with the models and the default preset.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlhf_pipeline.params import Params, load

TARGET = Path("docs/params.md")
UNITS = (
    ("kl.reward.target", "nats/token"),
    ("kl.reward.horizon", "samples"),
    ("_tokens_per_gpu", "tokens"),
    ("_tokens", "tokens"),
    ("batch_size", "rows"),
    ("batch_size_per_gpu", "rows"),
    ("_steps", "steps"),
    ("epochs", "epochs"),
    ("n_prompts", "prompts"),
    ("_gib", "GiB"),
    ("_fraction", "share of 1"),
    ("_ratio", "share of 1"),
    ("_drop", "share of 1"),
    ("_share", "share of 1"),
    ("_utilization", "share of 1"),
)
HEAD = """# params.yaml, key by key

Made by `make params-docs` from `src/rlhf_pipeline/params/`; edit the text there, not here.

Every key must be present: there are no hidden defaults. A key that is unknown, missing, of the wrong
type or out of range stops the pipeline before anything runs, and all such mistakes are reported at
once. The column "tiny-cpu" shows the value in `presets/tiny-cpu.yaml`, which is the params.yaml of a
fresh clone. "verl" names the key of verl's own configuration that a value becomes; anything else of
verl's can be set through `ppo.verl_overrides`. Change a value in the file, or for one experiment with
`dvc exp run -S ppo.kl.loss.coef=0.02`.
"""


class Row(NamedTuple):
    """One key as the table shows it."""

    key: str
    kind: str
    bounds: str
    unit: str
    default: str
    text: str
    verl: str


def rows(
    model: type[BaseModel], values: Any, prefix: str
) -> Iterator[tuple[str, type[BaseModel], list[Row]]]:
    """(section key, section class, its rows) for a model and the sections below it, in file order."""
    own: list[Row] = []
    below: list[tuple[str, type[BaseModel], Any]] = []
    for name, field in model.model_fields.items():
        key, value = f"{prefix}{name}", getattr(values, name)
        nested = _section(field.annotation)
        if nested is None:
            own.append(_row(key, field, value))
        elif isinstance(value, list):
            own.append(
                _row(key, field, f"{len(value)} entry" if len(value) == 1 else f"{len(value)} entries")
            )
            below.append((f"{key}.0", nested, value[0]))
        else:
            below.append((key, nested, value))
    yield prefix.rstrip("."), model, own
    for key, nested, value in below:
        yield from rows(nested, value, f"{key}.")


def render(params: Params) -> str:
    """The whole of docs/params.md, with the values of `params` in its last-but-two column."""
    parts = [HEAD]
    for key, model, own in rows(Params, params, ""):
        parts.append(f"## {key or 'Top level'}\n")
        if key:
            parts.append(f"{(model.__doc__ or '').strip()}\n")
        if own:
            parts.append(_table(own))
    return "\n".join(parts)


def _table(own: list[Row]) -> str:
    columns = ("key", "type", "range", "unit", "tiny-cpu", "meaning", "verl")
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in own]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _row(key: str, field: FieldInfo, value: Any) -> Row:
    text, _, verl = " ".join((field.description or "").split()).partition(" verl: ")
    if text.startswith("verl: "):
        text, verl = "", text.removeprefix("verl: ")
    kind, bounds = _described(field.annotation, field.metadata)
    unit = next((unit for ending, unit in UNITS if key.endswith(ending)), "")
    return Row(
        f"`{key}`",
        kind,
        bounds,
        unit,
        f"`{_yaml(value)}`",
        text,
        verl.rstrip(".") and f"`{verl.rstrip('.')}`",
    )


def _section(annotation: Any) -> type[BaseModel] | None:
    candidates = [annotation, *typing.get_args(annotation)]
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _described(annotation: Any, metadata: list[Any]) -> tuple[str, str]:
    """The type in words and the range, of an annotation with its constraints."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        extra = [one for info in arguments[1:] for one in getattr(info, "metadata", [info])]
        return _described(arguments[0], [*metadata, *extra])
    if origin is Literal:
        return " | ".join(str(one) for one in arguments), ""
    if origin in (typing.Union, types.UnionType):
        described = [_described(one, []) for one in arguments]
        return " | ".join(kind for kind, _ in described), ", ".join(
            bounds for _, bounds in described if bounds
        )
    if origin is list:
        kind, bounds = _described(arguments[0], [])
        return f"list of {kind}", bounds
    if origin is dict:
        return f"mapping to {_described(arguments[1], [])[0]}", ""
    names = {
        type(None): "null",
        str: "text",
        int: "integer",
        float: "number",
        bool: "true | false",
        Any: "anything",
    }
    name = names.get(annotation) or re.sub(r"(?<!^)(?=[A-Z])", " ", annotation.__name__).lower()
    return name, _bounds(metadata)


def _bounds(metadata: list[Any]) -> str:
    signs = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}
    found = [(signs[type(one)], one) for one in metadata if type(one) in signs]
    return ", ".join(f"{sign} {_yaml(getattr(one, attribute))}" for (sign, attribute), one in found)


def _yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(load("presets/tiny-cpu.yaml")), encoding="utf-8")
