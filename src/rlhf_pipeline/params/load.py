"""Reads params.yaml with one YAML 1.2 reader, applies overrides, validates, reports every problem.

YAML 1.1 readers take `1e-5` for a string and `on` for a boolean; DVC and OmegaConf do not. This
module is the only reader in the project, so that all agree. Cross-field rules are in checks.py.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

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
        ParamsError: when the file cannot be read, is not YAML, or is not a mapping at its top.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path} does not exist; restore it or run `make preset NAME=tiny-cpu`") from None
    except OSError as error:
        raise ParamsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path} is not UTF-8 text: {error}") from None
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ParamsError(f"{path}{place}: not valid YAML: {error.problem}") from None
    except (YAMLError, ValueError) as error:  # ValueError: a date such as 2024-13-45
        raise ParamsError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
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
        problems += _lines(error, merged)
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
            place = _child(place, key)
        if isinstance(place, dict):
            place[last] = value
        elif isinstance(place, list) and last.isdigit() and int(last) < len(place):
            place[int(last)] = value
        else:
            problems.append(f"{dotted}: no such key to override")
    return merged, problems


def _child(place: Any, key: str | int) -> Any:
    """The value under a key of a mapping or a position of a list; None where there is none."""
    if isinstance(place, dict):
        return place.get(key)
    if isinstance(place, list) and str(key).isdigit() and int(key) < len(place):
        return place[int(key)]
    return None


def _lines(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """One line per key; the alternatives of a key that may be of several kinds stand on one line."""
    reasons: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for entry in error.errors(include_url=False):
        parts: list[str] = []
        place: Any = values
        for part in entry["loc"]:
            if not isinstance(place, dict | list):
                break  # what follows names an alternative, not a key
            parts.append(str(part))
            place = _child(place, part)
        key = ".".join(parts)
        reasons.setdefault(key, []).append(_reason(entry))
        if entry["type"] not in ("missing", "extra_forbidden"):
            found[key] = f", got {_short(entry['input'])}"
    return [f"{key}: {' or '.join(texts)}{found.get(key, '')}" for key, texts in reasons.items()]


def _reason(entry: Any) -> str:
    kind = entry["type"]
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(entry["loc"][-1]), _known_keys(entry["loc"][:-1]), n=1)
        return "unknown key" + (f"; did you mean {close[0]}?" if close else "")
    message = "should be a section with keys" if kind == "model_type" else entry["msg"].removeprefix("Input ")
    return f"{message[:1].lower()}{message[1:]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _known_keys(section: tuple[str | int, ...]) -> list[str]:
    model: Any = Params
    for name in section:
        field = model.model_fields.get(name)
        model = field.annotation if field else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return []
    return list(model.model_fields)
