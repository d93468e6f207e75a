"""Reads a data set through the datasets library: a Hub name, or a folder that it can load.

Rows stream; nothing is kept. A data set names its own files, so each of them is checked to lie in the
folder or in the repository it came from. Pin `options.revision`, because DVC cannot see the Hub change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import DataError
from ..items import Options, Place, RawRow


def read_hub(name: str, raw: Path, options: Options) -> Iterator[RawRow]:
    """The rows of `hf://<name>`: split `options.split` (train) of subset `options.subset`.

    Raises:
        DataError: when it cannot be loaded, or would read files outside the folder or repository.
    """
    import datasets

    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise DataError(f"hf://{name}: must be a name on the Hub or a folder inside data.raw ({raw})")
    folder = raw / name
    target = str(folder) if folder.is_dir() else name
    split = options.get("split", "train")
    try:
        # `trust_remote_code` is never set: a data set that needs its own Python is refused.
        builder = datasets.load_dataset_builder(
            target, options.get("subset"), revision=options.get("revision")
        )
        for file in _files(builder):
            _refuse_outside(file, name, raw if folder.is_dir() else None)
        rows = builder.as_streaming_dataset(split=split)
        # Decoding would open whatever path an image or audio column names.
        rows = rows.decode(False) if rows.features else rows
        for number, values in enumerate(rows, start=1):
            yield RawRow(Place(f"{name} ({split})", number), values)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"hf://{name}: cannot be loaded: {first}") from None


def _files(builder: Any) -> Iterator[str]:
    for files in (builder.config.data_files or {}).values():
        # An archive's member is written as zip://member::archive.
        yield from (str(file).rpartition("::")[2] for file in files)


def _refuse_outside(file: str, name: str, raw: Path | None) -> None:
    """`raw` is None for a data set of the Hub, whose files all lie on the Hub (it may have been renamed)."""
    if raw is None:
        inside = file.startswith("hf://datasets/") and ".." not in PurePosixPath(file).parts
    else:
        inside = "://" not in file and Path(file).resolve().is_relative_to(raw.resolve())
    if not inside:
        raise DataError(f"hf://{name}: names a file outside of it, {file}; refused")
