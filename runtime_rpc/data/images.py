"""Images in folders by class, as `torchvision.datasets.ImageFolder` has them.

    data/cat/1.png
    data/dog/2.jpg

The classes are the folders in the order of their names. An image is decoded when a step takes it,
made as large as the input, and its numbers lie in [0, 1]; an input of integers gets [0, 255].
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odtc.core.errors import DataError
from odtc.core.process.missing_packages import require_packages
from odtc.core.specs import Argument, Classes
from odtc.runtime_rpc.data.source import Batch, Source
from odtc.runtime_rpc.data.wanted import Wanted

_ENDINGS = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_HINT = "make a folder of images for each class"


@dataclass(frozen=True)
class Images(Source):
    """Images with the numbers of their classes.

    Attributes:
        files: of the images.
        classes: number of each.
        fed: the input that they are for.
        label: the label.
        channels: axis of the input; 1 or 3.
        count: how many there are.
        where: the folder.
        notes: what is to be said of them.
    """

    files: tuple[Path, ...]
    classes: np.ndarray
    fed: Argument
    label: Argument
    channels: int
    count: int
    where: str
    notes: tuple[str, ...]

    @property
    def is_slow(self) -> bool:
        """See `Source.is_slow`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`."""
        x = np.stack([self._decoded(self.files[number]) for number in numbers])
        y = self.classes[numbers].reshape(-1, *self.label.spec.shape[1:])
        return {self.fed.spec.name: x}, {self.label.spec.name: y}

    def digest(self) -> str:
        """Of the files' names and contents."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.relative_to(self.where)}\n".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:32]

    def _decoded(self, file: Path) -> np.ndarray:
        from PIL import Image, UnidentifiedImageError

        shape, at = self.fed.spec.shape, self.channels
        height, width = (shape[2], shape[3]) if at == 1 else (shape[1], shape[2])
        try:
            with Image.open(file) as image:
                drawn = image.convert(_MODES[shape[at]])
        except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
            raise DataError(
                f"not a readable image ({error})", where=str(file), hint="remove it"
            ) from error
        if drawn.size != (width, height):
            drawn = drawn.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(drawn).reshape(height, width, shape[at])
        pixels = pixels.transpose(2, 0, 1) if at == 1 else pixels
        if np.dtype(self.fed.spec.dtype).kind == "f":
            return pixels.astype(np.float32) / np.float32(255)
        return pixels


def read_images(path: Path, wanted: Wanted) -> Images:
    """The images of a folder.

    Raises:
        DataError: it has none, or not as many classes as the step.
        MissingPackageError: pillow is not installed.
    """
    folders = sorted(each for each in path.iterdir() if each.is_dir())
    found = [
        (file, number)
        for number, folder in enumerate(folders)
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in _ENDINGS
    ]
    if not found:
        raise DataError(
            "the data is a folder without images in folders, and without .npy files",
            where=str(path),
            hint=_HINT,
        )
    require_packages("PIL")
    fed, channels = _image_input(wanted.inputs, path)
    label, classes = _class_label(wanted.labels, path)
    if len(folders) != classes.count:
        raise DataError(
            f"the folder has {len(folders)} classes; the step has {classes.count}",
            where=str(path),
            hint=f"{_HINT} of the step, in the order of their names; one may be empty",
        )
    shape = fed.spec.shape
    size = shape[2:4] if channels == 1 else shape[1:3]
    scale = "[0, 1]" if np.dtype(fed.spec.dtype).kind == "f" else "[0, 255]"
    note = (
        f"{path}: images are made {size[0]} x {size[1]}, their numbers lie in {scale}; classes are "
        f"{', '.join(f'{number} {each.name}' for number, each in enumerate(folders))}"
    )
    return Images(
        tuple(file for file, _ in found),
        np.array([number for _, number in found], np.int32),
        fed,
        label,
        channels,
        len(found),
        str(path),
        (note,),
    )


def _image_input(inputs: Sequence[Argument], path: Path) -> tuple[Argument, int]:
    """The only input, and the axis of its channels.

    Raises:
        DataError: there are several, or it is none of images.
    """
    if len(inputs) == 1 and len(shape := inputs[0].spec.shape) == 4:
        place = inputs[0].place
        at = next((axis for axis in (1, 3) if shape[axis] in _MODES), None)
        if at and place and place.axis == 0:
            return inputs[0], at
    said = ", ".join(str(item.spec) for item in inputs)
    raise DataError(
        f"images are for an input of [samples, 1 or 3 or 4 channels, height, width]; the step "
        f"takes {said}",
        where=str(path),
        hint="give arrays",
    )


def _class_label(labels: Sequence[Argument], path: Path) -> tuple[Argument, Classes]:
    label = labels[0] if len(labels) == 1 else None
    if label and label.classes and int(np.prod(label.spec.shape[1:])) == 1:
        return label, label.classes
    raise DataError(
        "folders of images have a class each, and the step takes no such label",
        where=str(path),
        hint="give arrays, or compile with a loss on class numbers",
    )
