"""Reads params.yaml with one YAML 1.2 reader, applies overrides, validates, reports every problem.

YAML 1.1 readers take `1e-5` for a string and `on` for a boolean; DVC and OmegaConf do not. This
module is the only reader in the project, so that all agree. Cross-field rules are in checks.py.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ..errors import ParamsError
from ..paths import PARAMS
from .checks import problems_of
from .root import STAGE_SECTIONS, Params


def load(path: Path | str = PARAMS, overrides: Mapping[str, Any] | None = None) -> Params:
    """The validated params of a file, after dotted-key overrides such as {"ppo.kl.loss.coef": 0.01}.

    Raises:
        ParamsError: naming every malformed, unknown, missing, mistyped or impossible key.
    """
    return parse(read_yaml(Path(path)), overrides, where=str(path))


def load_stage(stage: str, path: Path | str = PARAMS) -> tuple[Params, str]:
    """The params and the digest of the sections that `stage` reads."""
    params = load(path)
    return params, digest(params, STAGE_SECTIONS[stage])


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file.

    Raises:
        ParamsError: when the file is missing, is not YAML, or is not a mapping at its top.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path} does not exist; restore it or run `make preset NAME=tiny-cpu`") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path} is not UTF-8 text: {error}") from None
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ParamsError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise ParamsError(f"{path} must hold a mapping at its top level, got {type(value).__name__}")
    return value


def parse(
    values: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, where: str = "params"
) -> Params:
    """Validate a nested mapping.

    Raises:
        ParamsError: one line per problem, each with the dotted key.
    """
    merged, problems = _override(values, overrides or {})
    params = None
    try:
        params = Params.model_validate(merged)
    except ValidationError as error:
        problems += [_line(entry) for entry in error.errors()]
    if params is not None and not problems:
        problems += problems_of(params)
    if problems or params is None:
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        raise ParamsError(f"{where}: {count}\n" + "\n".join(f"  {line}" for line in problems))
    return params


def digest(params: Params, sections: Iterable[str]) -> str:
    """16 hex digits over the named sections' values, whatever their order in the file."""
    whole = params.model_dump(mode="json")
    picked = {name: _pick(whole, name) for name in sections}
    return hashlib.sha256(json.dumps(picked, sort_keys=True).encode()).hexdigest()[:16]


def _pick(value: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        value = value[key]
    return value


def _override(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    merged = copy.deepcopy(dict(values))
    problems = []
    for dotted, value in overrides.items():
        *parents, last = dotted.split(".")
        place: Any = merged
        for key in parents:
            place = place.get(key) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            problems.append(f"{dotted}: no such key to override")
        else:
            place[last] = value
    return merged, problems


def _line(entry: Any) -> str:
    key = ".".join(str(part) for part in entry["loc"])
    kind, found = entry["type"], entry["input"]
    if kind == "missing":
        return f"{key}: missing"
    if kind == "extra_forbidden":
        return f"{key}: unknown key"
    return f"{key}: {entry['msg'][:1].lower()}{entry['msg'][1:]}, got {found!r}"
