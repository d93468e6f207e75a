"""Opens text sources as byte lines: plain, .gz or .zst, one line at a time, bombs refused.

A file that expands beyond reason is refused before memory or disk suffer. Decoding and parsing are
done by the readers of each format.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from ...errors import DataError

MIB = 2**20
MAX_LINE_BYTES = 64 * MIB
FREE_BYTES = 64 * MIB
"""Decompressed size below which no ratio is looked at."""
MAX_EXPANSION = 200
"""Text rarely compresses more than 20-fold; beyond this it is a bomb or a mistake."""


class _Zstandard(io.RawIOBase):
    """Decompresses frame after frame; unlike the library's own reader it notices a file that was cut."""

    # A block of a few bytes may stand for 128 KiB: little is fed at a time so that little comes out.
    FED_BYTES = 4096

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file, self._decompressor = file, zstandard.ZstdDecompressor()
        self._frame = self._decompressor.decompressobj()
        self._fed = b""
        self._ready = memoryview(b"")
        self._is_inside = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            self._fed = self._fed or self._file.read(self.FED_BYTES)
            if not self._fed:
                if self._is_inside:
                    raise EOFError("the file ends inside a frame")
                return 0
            self._ready = memoryview(self._frame.decompress(self._fed))
            self._fed = self._frame.unused_data
            self._is_inside = not self._frame.eof
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


class _Guarded(io.RawIOBase):
    """A decompressed stream that refuses to grow beyond `MAX_EXPANSION` times its file."""

    def __init__(self, inner: IO[bytes], path: Path) -> None:
        self._inner, self._path, self._read = inner, path, 0
        self._allowed = max(FREE_BYTES, MAX_EXPANSION * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._inner.read(len(buffer))
        self._read += len(piece)
        if self._read > self._allowed:
            raise DataError(
                f"{self._path}: expands to more than {MAX_EXPANSION} times its size"
                f" ({self._read / MIB:.0f} MiB so far); refused as a decompression bomb"
            )
        buffer[: len(piece)] = piece
        return len(piece)


def _guarded(inner: object, path: Path) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Guarded(cast(IO[bytes], inner), path), MIB))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a file.

    Raises:
        DataError: when the file is damaged, truncated or a decompression bomb.
    """
    import zstandard

    try:
        with path.open("rb") as file:
            if path.suffix == ".gz":
                yield _guarded(gzip.GzipFile(fileobj=file), path)
            elif path.suffix in (".zst", ".zstd"):
                yield _guarded(_Zstandard(file), path)
            else:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise DataError(f"{path}: damaged or truncated compressed file ({error})") from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines (from 1) without their line ends; blank lines are left out but counted.

    Raises:
        DataError: for a file in UTF-16/32, or a line longer than `MAX_LINE_BYTES`.
    """
    with open_bytes(path) as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{path}, row {number}: a row of more than {MAX_LINE_BYTES // MIB} MiB")
            if number == 1:
                line = without_bom(line, path)
            line = line.strip(b" \t\r\n")
            if line:
                yield number, line


def decoded_stream(file: IO[bytes], path: Path) -> IO[bytes]:
    """The rest of a byte stream after its UTF-8 byte-order mark, if any; UTF-16 and UTF-32 are refused."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    start = buffered.peek(4)[:4]
    buffered.read(len(start) - len(without_bom(start, path)))
    return cast(IO[bytes], buffered)


def without_bom(start: bytes, path: Path) -> bytes:
    """The first bytes of a text file without a UTF-8 byte-order mark; UTF-16 and UTF-32 are refused."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise DataError(f"{path}: is UTF-16 or UTF-32 text; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)")
    return start.removeprefix(b"\xef\xbb\xbf")


def decoded(line: bytes, where: str) -> str:
    """UTF-8 text.

    Raises:
        DataError: naming the place and the byte that is not UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start} (0x{line[error.start]:02x}) is not UTF-8; convert the file to UTF-8"
        ) from None
