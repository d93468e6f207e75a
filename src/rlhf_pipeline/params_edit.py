"""Changes a params file by dotted keys and leaves its comments and order as they are.

Checks nothing: `load` does, when the file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from .publish import write_text


def place_of(values: Any, dotted: str) -> tuple[Any, str]:
    """The section that holds a dotted key, and the key's name in it."""
    *parents, last = dotted.split(".")
    for key in parents:
        values = values[key]
    return values, last


def change_params(source: Path, settings: Mapping[str, Any], target: Path) -> None:
    """Copy a params file with some dotted keys set; `target` may be `source`."""
    yaml = YAML()
    yaml.width = 4096
    values = yaml.load(source.read_text(encoding="utf-8"))
    for dotted, value in settings.items():
        section, key = place_of(values, dotted)
        section[key] = value
    text = StringIO()
    yaml.dump(values, text)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text.getvalue())
