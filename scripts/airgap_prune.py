"""Blanks the GPU code of other architectures in a shared library, so that it packs into far fewer bytes.

`python -m scripts.airgap_prune ARCH LIBRARY...`, with 90 for Hopper. Every header and offset stays
where it was and the file keeps its length: the CUDA driver skips the blanked images by their
architecture. A container without an image for ARCH keeps its PTX, which the driver compiles.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONTAINER_MAGIC = b"\x50\xed\x55\xba"
PTX = 1


class Image(NamedTuple):
    """GPU code for one architecture inside a container."""

    kind: int
    arch: int
    start: int
    size: int


def section(data: bytes, name: bytes) -> tuple[int, int]:
    """Offset and size of an ELF section; (0, 0) when there is none."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + index * entry_size) for index in range(count)]
    names = headers[names_index][4]
    for header in headers:
        begin = names + header[0]
        if data[begin : data.index(b"\0", begin)] == name:
            return header[4], header[5]
    return 0, 0


def containers(data: bytes, start: int, size: int) -> Iterator[list[Image]]:
    """The images of each fat binary between `start` and `start + size`."""
    place, end = start, start + size
    while (place := data.find(CONTAINER_MAGIC, place, end)) >= 0:
        header, length = struct.unpack_from("<6xHQ", data, place)
        image, last, images = place + header, place + header + length, []
        while image < last:
            kind, image_header, image_size = struct.unpack_from("<H2xIQ", data, image)
            (arch,) = struct.unpack_from("<I", data, image + 0x1C)
            images.append(Image(kind, arch, image + image_header, image_size))
            image += image_header + image_size
        yield images
        place = last


def prune(path: Path, arch: int) -> tuple[int, int]:
    """Blank in place; returns the bytes kept and blanked."""
    data = bytearray(path.read_bytes())
    kept = blanked = 0
    for images in containers(bytes(data), *section(bytes(data), b".nv_fatbin")):
        ours = any(image.arch == arch for image in images)
        for image in images:
            if image.arch == arch or (not ours and image.kind == PTX and image.arch <= arch):
                kept += image.size
            else:
                data[image.start : image.start + image.size] = bytes(image.size)
                blanked += image.size
    path.write_bytes(data)
    return kept, blanked


def main() -> int:
    arch = int(sys.argv[1])
    for name in sys.argv[2:]:
        kept, blanked = prune(Path(name), arch)
        print(f"{name}: kept {kept / 1e6:.0f} MB of GPU code, blanked {blanked / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
