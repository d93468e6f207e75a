"""Reads a data set through the datasets library: a Hub name, or a folder that it can load.

Rows stream; nothing is kept. Pin `options.revision`, because DVC cannot see the Hub change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..items import Options, Place, RawRow


def read_hub(name: str, raw: Path, options: Options) -> Iterator[RawRow]:
    """The rows of `hf://<name>`: split `options.split` (train) of subset `options.subset`."""
    import datasets

    folder = raw / name
    target = str(folder) if folder.is_dir() else name
    split = options.get("split", "train")
    try:
        # `trust_remote_code` is never set: a data set that needs its own Python is refused.
        rows = datasets.load_dataset(
            target, options.get("subset"), split=split, revision=options.get("revision"), streaming=True
        )
        for number, values in enumerate(rows, start=1):
            yield RawRow(Place(f"{name} ({split})", number), values)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"hf://{name}: cannot be loaded: {first}") from None
