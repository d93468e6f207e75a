"""Turns a source's path into its files, and each file into numbered raw rows by its suffix.

The path stays inside `data.raw`: traversal and links that lead outside are refused. What the rows
mean is decided in shapes/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import DataError
from ..items import RawRow

Reader = Callable[[Path, str], Iterator[RawRow]]


def _reader(name: str) -> Reader | None:
    for compression in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(compression)
    suffix = Path(name).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        from .json_text import read_lines

        return read_lines
    if suffix == ".json":
        from .json_text import read_list

        return read_list
    if suffix in (".parquet", ".pq"):
        from .arrow_files import read_parquet

        return read_parquet
    if suffix in (".arrow", ".feather", ".ipc"):
        from .arrow_files import read_arrow

        return read_arrow
    return None


def files_of(raw: Path, pattern: str) -> list[Path]:
    """The files that a source's path (file, folder or glob, relative to `raw`) names, sorted.

    Raises:
        DataError: when it names nothing, leads outside `raw`, or holds no file of a known format.
    """
    root = raw.resolve()
    place = raw / pattern
    if place.is_file():
        found = [place]
    elif place.is_dir():
        found = [path for path in place.rglob("*") if path.is_file()]
    else:
        found = [path for path in raw.glob(pattern) if path.is_file()] if raw.is_dir() else []
    if not found:
        raise DataError(f"{place} does not exist (data.sources[].path is relative to data.raw: {raw})")
    for path in found:
        if not path.resolve().is_relative_to(root):
            raise DataError(
                f"{path} leads outside data.raw ({raw}); set data.raw to the folder that holds it"
            )
    if place.is_file():
        return found
    known = [path for path in found if _reader(path.name) and not path.name.startswith((".", "_"))]
    if not known:
        raise DataError(
            f"{place} holds no file of a known format (.jsonl, .json, .parquet, .csv, .tsv, .arrow, .xlsx)"
        )
    return sorted(known)


def read(path: Path, raw: Path) -> Iterator[RawRow]:
    """The raw rows of one file.

    Raises:
        DataError: for an unknown suffix, or anything the file's reader refuses.
    """
    label = path.relative_to(raw).as_posix()
    reader = _reader(path.name)
    if reader is None:
        raise DataError(
            f"{label}: unknown format {path.suffix!r}; known: .jsonl, .json (also .gz, .zst), .parquet,"
            " .csv, .tsv, .arrow, .feather, .xlsx"
        )
    return reader(path, label)
