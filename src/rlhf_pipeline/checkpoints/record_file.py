"""One record as a JSON file that no flipped bit or kill can spoil: checksummed, replaced whole, kept twice.

The replacement of the file itself, after its backup, is the moment a change counts. What the record
means is its model's matter (book.py, release_log.py).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import CheckpointError
from ..publish import write_text


class Record(BaseModel):
    """Base of what is kept: frozen, strictly typed, no unknown fields, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class VersionedRecord(Record):
    """A whole file's content."""

    format_version: int


R = TypeVar("R", bound=VersionedRecord)


def write_record(path: Path, record: VersionedRecord) -> None:
    """Replace the backup, then `path`; an error before the end leaves `path` as it was."""
    body = record.model_dump_json(indent=1)
    text = json.dumps({"sha256": _checksum(body), "body": body}) + "\n"
    write_text(backup_of(path), text)
    write_text(path, text)


def read_record(path: Path, model: type[R], format_version: int, way_out: str) -> tuple[R | None, str | None]:
    """The record in `path` (None where there is none), and a warning when only its backup could be read.

    Args:
        way_out: ends the message when nothing can be read, such as "or delete the folder".

    Raises:
        CheckpointError: there is a record and neither copy can be trusted, or its format is unknown.
    """
    copies = (path, backup_of(path))
    problems = []
    for copy in copies:
        try:
            record = _parse(copy, model, format_version, way_out)
        except FileNotFoundError:
            problems.append(f"{copy.name} is missing")
            continue
        except ValueError as error:
            problems.append(f"{copy.name} is damaged ({error})")
            continue
        warning = f"{path.parent}: {'; '.join(problems)}; continued from {copy.name}" if problems else None
        return record, warning
    if not any(copy.exists() for copy in copies):
        return None, None
    raise CheckpointError(f"{path.parent}: {' and '.join(problems)}; restore one of them, {way_out}")


def backup_of(path: Path) -> Path:
    """Where a record's second copy lies."""
    return path.with_suffix(f".backup{path.suffix}")


def _parse(path: Path, model: type[R], format_version: int, way_out: str) -> R:
    try:
        envelope = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    body = envelope.get("body") if isinstance(envelope, dict) else None
    if not isinstance(body, str) or _checksum(body) != envelope.get("sha256"):
        raise ValueError("its checksum does not match")
    found = json.loads(body).get("format_version")
    if found != format_version:
        raise CheckpointError(
            f"{path} has format {found}, this version reads {format_version};"
            f" use the version that wrote it, {way_out}"
        )
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(f"{error.error_count()} fields are not as expected") from None


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
