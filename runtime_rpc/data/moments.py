"""Means and standard deviations of data, by channel of images and by feature of rows.

Parts are read one after the other, and their sums joined by the formula of Chan, Golub and LeVeque,
"Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979: no part of the
data is read twice, and means far from zero cost no digits.
"""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from odtc.core.errors import DataError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.data.ahead import ahead
from odtc.runtime_rpc.data.arrays import arrays_in
from odtc.runtime_rpc.data.images.decoded import SKIP_BROKEN, opened
from odtc.runtime_rpc.data.images.folders import images_in
from odtc.runtime_rpc.data.mapped import let_go
from odtc.runtime_rpc.data.names import LABELS, listed
from odtc.runtime_rpc.data.tables.csv_files import CSV_ENDINGS
from odtc.runtime_rpc.data.tables.reading import features_of

_TABLES = (".parquet", *CSV_ENDINGS)
_CHANNELS = (1, 3, 4)
# Numbers that are read at once.
_PIECE = 1 << 20
# Between two texts of how much was read.
_SECONDS = 2.0
_HINT = "give the numbers: mean=0.485:0.456:0.406,std=0.229:0.224:0.225"


@dataclass(frozen=True)
class Moments:
    """Means and deviations of data.

    Attributes:
        means: of each channel or feature.
        deviations: as many; 1 of what is the same everywhere.
        columns: names of the features of a table.
    """

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    columns: tuple[str, ...] = ()


def moments_of(path: str | os.PathLike[str], progress: Progress = silent) -> Moments:
    """Means and deviations of a folder of images (as RGB, of pixels in [0, 1]), a table or arrays.

    Of a table they are those of all columns that no label is usually called as. An array is `x`, or
    the only one that may be an input: bytes [samples, channels, height, width], or with the
    channels last, whose numbers count as pixels in [0, 1]; or floats [samples, features]. What is
    the same everywhere has the deviation 1.

    Args:
        path: of the data.
        progress: is told now and then how much of it was read.

    Raises:
        DataError: it cannot be read, or has none of these.
        MissingPackageError: pillow is not installed, and the data is images.
    """
    data = Path(path)
    if data.is_dir() and not any(data.glob("*.npy")):
        return _of_images(data, progress)
    if data.name.lower().endswith(_TABLES):
        columns = features_of(data)
        rows = np.stack([*columns.values()], axis=1)
        found = _moments(_parts(rows, "x", data, progress))
        return replace(found, columns=tuple(columns))
    arrays = arrays_in(data)
    name = _input_in(arrays, data)
    return _moments(_parts(arrays[name], name, data, progress))


def _of_images(data: Path, progress: Progress) -> Moments:
    """Of a folder of images.

    Raises:
        DataError: an image cannot be read. A run can leave it out, by an option that means of
            images do not have: the message says what there is here.
    """
    try:
        files = images_in(data).files
        pixels = ahead(_pixels, (file for file, _ in files))
        return _moments(_told(pixels, len(files), f"read the images of {data}", progress))
    except DataError as error:
        if SKIP_BROKEN not in (error.hint or ""):
            raise
        raise DataError(
            error.what,
            where=error.where,
            hint=f"the means are of all images: remove what cannot be read, or {_HINT}",
        ) from error


def _moments(parts: Iterable[np.ndarray]) -> Moments:
    """Of parts [numbers, channels] of float64."""
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    for part in parts:
        own = part.mean(axis=0)
        apart, total = own - mean, count + len(part)
        squares = squares + ((part - own) ** 2).sum(axis=0)
        squares = squares + apart**2 * (count * len(part) / total)
        mean, count = mean + apart * (len(part) / total), total
    deviation = np.sqrt(squares / count)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Moments(tuple(map(float, mean)), tuple(map(float, deviation)))


def _told(
    parts: Iterable[np.ndarray], count: int, what: str, progress: Progress
) -> Iterator[np.ndarray]:
    """The same parts; where they take long, how many were read is told now and then."""
    last = time.monotonic()
    for number, part in enumerate(parts):
        if time.monotonic() - last >= _SECONDS:
            last = time.monotonic()
            progress(f"{what}: {number} of {count}")
        yield part


def _pixels(file: Path) -> np.ndarray:
    return np.asarray(opened(file).convert("RGB"), np.float64).reshape(-1, 3) / 255


def _input_in(arrays: dict[str, np.ndarray], path: Path) -> str:
    """The name of the array that is normalised.

    Raises:
        DataError: there is none, or several may be it.
    """
    found = [name for name, array in arrays.items() if name not in LABELS and _axis(array)]
    chosen = ["x"] if "x" in found else found
    if len(chosen) == 1:
        return chosen[0]
    said = listed([f"{name} {array.dtype} {list(array.shape)}" for name, array in arrays.items()])
    raise DataError(
        f"{len(found) or 'no'} arrays may be an input that is normalised: bytes of images of 1, 3 "
        f"or 4 channels, or floats [samples, features]; it has {said or 'none'}",
        where=str(path),
        hint=f"name the array x, or {_HINT}",
    )


def _axis(array: np.ndarray) -> int | None:
    """The axis of channels of bytes, or of features of floats."""
    if array.ndim == 2 and array.dtype.kind == "f" and array.size:
        return 1
    if array.ndim == 4 and array.dtype == np.uint8 and array.size:
        return next((axis for axis in (1, 3) if array.shape[axis] in _CHANNELS), None)
    return None


def _parts(array: np.ndarray, name: str, path: Path, progress: Progress) -> Iterator[np.ndarray]:
    step = max(_PIECE * len(array) // array.size, 1)
    pieces = _pieces(array, step, name, path)
    count = -(-len(array) // step)
    return _told(pieces, count, f"read {name} of {path}, in parts", progress)


def _pieces(array: np.ndarray, step: int, name: str, path: Path) -> Iterator[np.ndarray]:
    axis = _axis(array)
    assert axis
    for start in range(0, len(array), step):
        part = np.moveaxis(array[start : start + step], axis, -1).astype(np.float64)
        let_go(array)
        part = part.reshape(-1, array.shape[axis])
        if not np.isfinite(part).all():
            raise DataError(
                f"the array {name} has elements that are not finite", where=str(path), hint=_HINT
            )
        yield part / 255 if array.dtype == np.uint8 else part
