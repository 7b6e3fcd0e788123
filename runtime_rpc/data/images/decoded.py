"""An image of a file, decoded."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from odtc.core.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

SKIP_BROKEN = "skip_broken=True, --skip-broken"
"""What leaves out images that cannot be read, in Python and on the command line."""
# What is near the end of a whole file; some programs write more behind it.
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND", "GIF": b"\x3b"}
_TAIL = 64


def opened(file: Path) -> "Image.Image":
    """An image of bytes, upright.

    Raises:
        DataError: it cannot be read, or nothing says how large its numbers may be.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            upright = ImageOps.exif_transpose(image)
    except Exception as error:  # Each format has exceptions of its own.
        raise DataError(
            f"not a readable image ({error})",
            where=str(file),
            hint=f"remove it, or leave out such images by {SKIP_BROKEN}",
        ) from error
    return _of_bytes(upright, file)


def is_readable(file: Path, *, decodes: bool = False) -> bool:
    """Whether a file begins as an image does, and ends so; one that seems cut is decoded.

    Args:
        file: that may be an image.
        decodes: whether any file is decoded, which takes longer, and finds all that is broken.

    Raises:
        DataError: it is one, and nothing says how large its numbers may be.
    """
    from PIL import Image, ImageOps

    try:
        with file.open("rb") as held, Image.open(held) as image:
            _check_depth(image, file)
            if decodes:
                ImageOps.exif_transpose(image)  # as `opened` does
            elif _ENDS.get(image.format or "", b"") not in _tail(held):
                image.load()
            return True
    except DataError:
        raise
    except Exception:  # Each format has exceptions of its own.
        return False


def _tail(held: BinaryIO) -> bytes:
    """The last bytes of a file; the place in it is as before."""
    at = held.tell()
    held.seek(-min(_TAIL, held.seek(0, os.SEEK_END)), os.SEEK_END)
    last = held.read()
    held.seek(at)
    return last


def _of_bytes(image: "Image.Image", file: Path) -> "Image.Image":
    """An image with a byte for each number; Pillow would make most of what is larger white.

    Raises:
        DataError: nothing says how large its numbers may be.
    """
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    _check_depth(image, file)
    return image


def _check_depth(image: "Image.Image", file: Path) -> None:
    """Checks that something says how large the numbers of an image may be.

    Raises:
        DataError: nothing does.
    """
    if image.mode in ("I", "F"):
        raise DataError(
            f"the image holds numbers of 32 bits (mode {image.mode}), and nothing says how large "
            "they may be",
            where=str(file),
            hint="save it with 8 or 16 bits, or give arrays",
        )
