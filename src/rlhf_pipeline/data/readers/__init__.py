"""Turns a source's path into its files, and each file into numbered raw rows by its suffix.

The path stays inside `data.raw`: traversal and links that lead outside are refused. What the rows
mean is decided in shapes/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from ...errors import DataError
from ..items import Options, RawRow
from . import arrow_files, json_text, sheets

Reader = Callable[[Path, str, Options], Iterator[RawRow]]

HUB = "hf://"
COMPRESSIONS = (".gz", ".zst", ".zstd")
COMPRESSED = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""Formats that may be compressed as a whole; the others compress inside."""
READERS: dict[str, Reader] = {
    ".jsonl": json_text.read_lines,
    ".ndjson": json_text.read_lines,
    ".json": json_text.read_list,
    ".csv": sheets.read_csv,
    ".tsv": sheets.read_csv,
    ".xlsx": sheets.read_xlsx,
    ".parquet": arrow_files.read_parquet,
    ".pq": arrow_files.read_parquet,
    ".arrow": arrow_files.read_arrow,
    ".feather": arrow_files.read_arrow,
    ".ipc": arrow_files.read_arrow,
}
# What the datasets library writes beside its data files.
METADATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "manifest.json")
OPTIONS = frozenset({"separator", "sheet", "subset", "split", "revision"})
"""Keys of `data.sources[].options` that readers understand."""


def known_formats() -> str:
    """The suffixes that can be read, for messages."""
    return f"{', '.join(READERS)}, the text ones also with .gz or .zst"


def _format(name: str) -> str | None:
    for compression in COMPRESSIONS:
        if name.lower().endswith(compression):
            suffix = Path(name[: -len(compression)]).suffix.lower()
            return suffix if suffix in COMPRESSED else None
    suffix = Path(name).suffix.lower()
    return suffix if suffix in READERS else None


def files_of(raw: Path, pattern: str) -> list[Path]:
    """The files that a source's path (file, folder or glob, relative to `raw`) names, sorted.

    Raises:
        DataError: when it names nothing, leads outside `raw`, or holds no file of one known format.
    """
    root = raw.resolve()
    place = raw / pattern
    if place.is_file():
        found = [place]
    elif place.is_dir():
        found = [path for path in place.rglob("*") if path.is_file()]
    else:
        try:
            found = [path for path in raw.glob(pattern) if path.is_file()] if raw.is_dir() else []
        except (ValueError, NotImplementedError) as error:
            raise DataError(f"data.sources[].path: {pattern!r} is not a glob pattern ({error})") from None
    if not found:
        raise DataError(f"{place} holds no file (data.sources[].path is relative to data.raw: {raw})")
    for path in found:
        if not path.resolve().is_relative_to(root):
            raise DataError(f"{path} leads outside data.raw ({raw}); set data.raw to the folder it lies in")
    if place.is_file():
        return found
    known = sorted(path for path in found if _format(path.name) and not _is_metadata(path.relative_to(raw)))
    if not known:
        raise DataError(f"{place} holds no file of a known format ({known_formats()})")
    formats = sorted({str(_format(path.name)) for path in known})
    if len(formats) > 1:
        raise DataError(
            f"{place} holds files of several formats ({', '.join(formats)}); name one with a glob"
        )
    return known


def _is_metadata(path: Path) -> bool:
    return (
        path.name in METADATA or path.name.startswith("cache-") or any(part[0] in "._" for part in path.parts)
    )


def read(path: Path, raw: Path, options: Options) -> Iterator[RawRow]:
    """The raw rows of one file; folders named `key=value` add columns.

    Raises:
        DataError: for an unknown suffix, or anything the file's reader refuses.
    """
    relative = path.relative_to(raw)
    suffix = _format(path.name)
    if suffix is None:
        raise DataError(f"{relative.as_posix()}: unknown format; known: {known_formats()}")
    partition = dict(_partition(part) for part in relative.parts[:-1] if "=" in part)
    rows = READERS[suffix](path, relative.as_posix(), options)
    return _with_partition(rows, partition) if partition else rows


def _partition(part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    return key, unquote(value)


def _with_partition(rows: Iterator[RawRow], partition: dict[str, str]) -> Iterator[RawRow]:
    for row in rows:
        yield RawRow(row.place, {**partition, **row.values})
