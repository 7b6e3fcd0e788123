"""Images in folders by class, as `torchvision.datasets.ImageFolder` has them.

    data/cat/1.png
    data/dog/2.jpg

The classes are the folders in the order of their names; what is hidden is no class and no image, as
systems put files of their own there. An image is decoded when a step takes it, turned upright as
its EXIF data says (torchvision leaves it as it is stored), made as large as the input, and its
numbers lie in [0, 1]; an input of integers gets [0, 255].
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odtc.core.errors import DataError
from odtc.core.specs import Argument, Classes
from odtc.runtime_rpc.data.fitting.said import note_of_balance
from odtc.runtime_rpc.data.images.decoded import opened
from odtc.runtime_rpc.data.images.folders import (
    HINT,
    every_image_in,
    images_in,
    notes_of_left,
)
from odtc.runtime_rpc.data.names import classes_text, listed
from odtc.runtime_rpc.data.source import Batch, Source
from odtc.runtime_rpc.data.wanted import Wanted

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Images(Source):
    """Images with the numbers of their classes.

    Attributes:
        files: of the images.
        classes: number of each; 0 where there is no label.
        fed: the input that they are for.
        label: the label; None where none is read.
        channels: axis of the input; 1 or 3.
        count: how many there are.
        where: the folder.
        class_names: names of the folders.
        notes: what is to be said of them.
        notes_of_training: see `Source`.
    """

    files: tuple[Path, ...]
    classes: np.ndarray
    fed: Argument
    label: Argument | None
    channels: int
    count: int
    where: str
    class_names: tuple[str, ...]
    notes: tuple[str, ...]
    notes_of_training: tuple[str, ...] = ()

    @property
    def are_files(self) -> bool:
        """See `Source.are_files`."""
        return True

    @property
    def is_slow(self) -> bool:
        """See `Source.is_slow`."""
        return True

    @property
    def is_fixed(self) -> bool:
        """See `Source.is_fixed`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`."""
        x = np.stack([self._decoded(self.files[number]) for number in numbers])
        if self.label is None:
            return {self.fed.spec.name: x}, {}
        y = self.classes[numbers].reshape(-1, *self.label.spec.shape[1:])
        return {self.fed.spec.name: x}, {self.label.spec.name: y}

    @property
    def sample_names(self) -> Sequence[str]:
        """See `Source.sample_names`: paths of the files below the folder."""
        return [file.relative_to(self.where).as_posix() for file in self.files]

    def digest(self) -> str:
        """Of the files' names, classes and contents."""
        digest = hashlib.sha256()
        for file, number in zip(self.files, self.classes, strict=True):
            digest.update(f"{number} {file.relative_to(self.where)}\n".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()[:32]

    def _decoded(self, file: Path) -> np.ndarray:
        from PIL import Image

        shape, at = self.fed.spec.shape, self.channels
        height, width = (shape[2], shape[3]) if at == 1 else (shape[1], shape[2])
        drawn = opened(file).convert(_MODES[shape[at]])
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
    if wanted.inputs_alone:
        return _without_classes(path, wanted)
    found = images_in(path, skip_broken=wanted.options.skip_broken)
    fed, channels = _image_input(wanted.inputs, path)
    label, classes = _class_label(wanted.labels, path)
    names = tuple(each.name for each in found.folders)
    if len(names) != classes.count:
        raise DataError(
            f"the folder has {len(names)} classes, {listed(names)}; the step has {classes.count}",
            where=str(path),
            hint=f"{HINT} of the step, in the order of their names; one may be empty",
        )
    note = f"{_note_of_form(path, fed, channels)}; {classes_text(names)}"
    numbers = np.array([number for _, number in found.files], np.int32)
    return Images(
        tuple(file for file, _ in found.files),
        numbers,
        fed,
        label,
        channels,
        len(found.files),
        str(path),
        names,
        tuple(filter(None, (note, *notes_of_left(path, found)))),
        tuple(note_of_balance(numbers, label, str(path))),
    )


def _without_classes(path: Path, wanted: Wanted) -> Images:
    """All images of a folder, whichever folders they are in."""
    found = every_image_in(path, skip_broken=wanted.options.skip_broken)
    fed, channels = _image_input(wanted.inputs, path)
    files = tuple(file for file, _ in found.files)
    notes = (_note_of_form(path, fed, channels), *notes_of_left(path, found))
    classes = np.zeros(len(files), np.int32)
    return Images(files, classes, fed, None, channels, len(files), str(path), (), notes)


def _note_of_form(path: Path, fed: Argument, channels: int) -> str:
    """The note of what an input is made of images."""
    shape = fed.spec.shape
    size = shape[2:4] if channels == 1 else shape[1:3]
    scale = "[0, 1]" if np.dtype(fed.spec.dtype).kind == "f" else "[0, 255]"
    return f"{path}: images are made {size[0]} x {size[1]}, their numbers lie in {scale}"


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
