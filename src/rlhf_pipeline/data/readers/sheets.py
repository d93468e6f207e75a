"""Reads tables of cells: CSV, TSV (plain, .gz, .zst) and XLSX, one header row, strictly.

A cell is text; a number is read from it only where a shape needs one, and a list of messages only
when the whole cell is one in JSON. Ragged rows, repeated column names and unbalanced quotes are
errors.
"""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ...errors import DataError
from ..fields import Cell
from ..items import Options, Place, RawRow
from .streams import FREE_BYTES, MAX_EXPANSION, MAX_LINE_BYTES, MIB, decoded_stream, open_bytes

# What openpyxl lets through from a damaged archive or damaged XML inside it (found by mutating files).
DAMAGED_XLSX = (
    zipfile.BadZipFile, zlib.error, struct.error, ParseError, EOFError, OSError, NotImplementedError,
    RuntimeError, KeyError, IndexError, ValueError, TypeError, AttributeError,
)  # fmt: skip


def read_csv(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """Comma-separated rows (tabs for .tsv), or `options.separator`."""
    separator = options.get("separator", "\t" if ".tsv" in path.name.lower() else ",")
    if not isinstance(separator, str) or len(separator) != 1:
        raise DataError(f"{label}: options.separator must be one character, got {separator!r}")
    csv.field_size_limit(MAX_LINE_BYTES)
    with open_bytes(path) as file:
        text = io.TextIOWrapper(decoded_stream(file, path), encoding="utf-8", errors="strict", newline="")
        reader = csv.reader(text, delimiter=separator, strict=True)
        number = 0
        try:
            header = _header(next(reader, None), label)
            if len(header) == 1 and any(other in header[0] for other in ",;\t|"):
                raise DataError(f"{label}: the header is one column {header[0]!r}; set options.separator")
            for number, cells in enumerate(reader, start=1):
                if cells:
                    yield RawRow(Place(label, number), _row(header, cells, Place(label, number)))
        except csv.Error as error:
            raise DataError(f"{Place(label, number + 1)}: is not CSV: {error}") from None
        except UnicodeDecodeError as error:
            raise DataError(
                f"{label}, after row {number}: a byte (0x{error.object[error.start]:02x}) is not UTF-8;"
                " convert the file to UTF-8"
            ) from None


def read_xlsx(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """The rows of the first sheet, or of `options.sheet`."""
    rows = _cells(path, label, options)
    header = _header(_trimmed(next(rows, ())), label)
    for number, cells in enumerate(rows, start=1):
        found = _trimmed(cells)
        if found:
            place = Place(label, number)
            yield RawRow(place, _row(header, [*found, *[None] * (len(header) - len(found))], place))


def _cells(path: Path, label: str, options: Options) -> Iterator[Sequence[Any]]:
    """The values of each row of the sheet."""
    import openpyxl

    try:
        _refuse_bomb(path, label)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            name = options.get("sheet", book.sheetnames[0])
            if name not in book.sheetnames:
                raise DataError(f"{label}: has no sheet {name!r}; it has {', '.join(book.sheetnames)}")
            yield from book[name].iter_rows(values_only=True)
        finally:
            book.close()
    except DAMAGED_XLSX as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{label}: not a readable XLSX file ({error})") from None


def _refuse_bomb(path: Path, label: str) -> None:
    with zipfile.ZipFile(path) as archive:
        expanded = sum(entry.file_size for entry in archive.infolist())
    if expanded > max(FREE_BYTES, MAX_EXPANSION * path.stat().st_size):
        raise DataError(
            f"{label}: expands to {expanded / MIB:.0f} MiB, more than {MAX_EXPANSION} times its size;"
            " refused as a decompression bomb"
        )


def _trimmed(cells: Sequence[Any]) -> list[Any]:
    found = list(cells)
    while found and found[-1] is None:
        found.pop()
    return found


def _header(cells: Sequence[Any] | None, label: str) -> list[str]:
    if not cells:
        raise DataError(f"{label}: has no header row")
    header = ["" if cell is None else str(cell).strip() for cell in cells]
    for number, name in enumerate(header, start=1):
        if not name:
            raise DataError(f"{label}: column {number} of the header has no name")
        if header.count(name) > 1:
            raise DataError(f"{label}: the column {name!r} stands twice in the header")
    return header


def _row(header: list[str], cells: Sequence[Any], place: Place) -> dict[str, Any]:
    if len(cells) != len(header):
        raise DataError(f"{place}: has {len(cells)} cells, the header has {len(header)}")
    return {name: _cell(cell) for name, cell in zip(header, cells, strict=True)}


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    if cell.startswith("[{") and cell.endswith("}]"):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return Cell(cell)
    return Cell(cell)
