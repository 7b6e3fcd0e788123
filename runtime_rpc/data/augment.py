"""Augmentations: other images of the same classes, drawn for each step.

They follow from the seed and the number of the step, so that a run that is taken up sees what it
would have seen. They are made ahead, on threads of their own, and only for training: validations
see the data as it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import UsageError
from odtc.core.options.checked_options import (
    check_options,
    count,
    format_choice,
    fraction,
    make_choice,
    options_of,
    positive,
)
from odtc.core.specs import Role
from odtc.runtime_rpc.data.source import Batch, Source, Wrapped

_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Augmentation(ABC):
    """An augmentation.

    Attributes:
        name: in text.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_options(self)

    def __str__(self) -> str:
        return format_choice(self.name, {k: getattr(self, k) for k in options_of(type(self))})

    @abstractmethod
    def images(self, images: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Other images for some, [samples, height, width, channels]."""


@dataclass(frozen=True)
class Flip(Augmentation):
    """Half of the images, left for right."""

    name: ClassVar[str] = "flip"

    def images(self, images: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Augmentation.images`."""
        chosen = random.random(len(images)) < 0.5
        return np.where(chosen[:, None, None, None], images[:, :, ::-1], images)


@dataclass(frozen=True)
class Crop(Augmentation):
    """Each image moved by up to `pixels` each way; what comes in at an edge is mirrored."""

    name: ClassVar[str] = "crop"
    pixels: int = count(4)

    def images(self, images: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Augmentation.images`."""
        by, (height, width) = self.pixels, images.shape[1:3]
        wide = np.pad(images, ((0, 0), (by, by), (by, by), (0, 0)), mode="symmetric")
        places = random.integers(0, 2 * by + 1, (len(images), 2))
        pairs = zip(wide, places, strict=True)
        return np.stack([each[y : y + height, x : x + width] for each, (y, x) in pairs])


@dataclass(frozen=True)
class Jitter(Augmentation):
    """Brightness and contrast of each image, times up to 1 - `share` to 1 + `share`."""

    name: ClassVar[str] = "jitter"
    share: float = fraction(0.2)

    def images(self, images: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Augmentation.images`."""
        bright, contrast = random.uniform(1 - self.share, 1 + self.share, (2, len(images), 1, 1, 1))
        mean = images.mean(axis=(1, 2, 3), keepdims=True)
        found = ((images - mean) * contrast + mean) * bright
        if images.dtype.kind in "iu":
            limits = np.iinfo(images.dtype)
            found = found.round().clip(limits.min, limits.max)
        return found.astype(images.dtype)


@dataclass(frozen=True)
class Mixup(Augmentation):
    """Each image mixed with another of the batch, and its label as much (Zhang et al., 2018).

    The share of the first is drawn from Beta(alpha, alpha) for each batch.
    """

    name: ClassVar[str] = "mixup"
    alpha: float = positive(0.2)

    def images(self, images: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """See `Augmentation.images`; labels are drawn the same again."""
        share, order = random.beta(self.alpha, self.alpha), random.permutation(len(images))
        mixed = share * images + (1 - share) * images[order]
        return (mixed.round() if images.dtype.kind in "iu" else mixed).astype(images.dtype)


AUGMENTATIONS: Mapping[str, type[Augmentation]] = {
    each.name: each for each in (Flip, Crop, Jitter, Mixup)
}


@dataclass(frozen=True)
class Augmented(Wrapped):
    """A source whose images are others in each step.

    Attributes:
        augmentations: in their order.
        images: the names of inputs that are images, each with the axis of its channels.
    """

    augmentations: Sequence[Augmentation]
    images: Mapping[str, int]

    @property
    def is_slow(self) -> bool:
        """See `Source.is_slow`."""
        return True

    def take(self, numbers: np.ndarray) -> Batch:
        """See `Source.take`: as they are."""
        return self.source.take(numbers)

    def of_step(self, numbers: np.ndarray, seed: int, step: int) -> Batch:
        """See `Source.of_step`."""
        x, y = self.source.take(numbers)
        for place, each in enumerate(self.augmentations):
            # Each input and label of a batch is drawn the same, so that they stay together.
            drawn = [seed, step, place]
            for name, channels in self.images.items():
                last = np.moveaxis(x[name], channels, -1)
                made = each.images(last, np.random.default_rng(drawn))
                x = {**x, name: np.ascontiguousarray(np.moveaxis(made, -1, channels))}
            if isinstance(each, Mixup):
                y = {k: each.images(v, np.random.default_rng(drawn)) for k, v in y.items()}
        return x, y


def augmented(source: Source, given: Any, manifest: Manifest) -> Source:
    """The source with augmentations; itself without.

    Args:
        source: of the samples.
        given: names such as `flip` and `crop{pixels=4}`.
        manifest: of the step.

    Raises:
        UsageError: one is unknown, the step takes no images, or has labels that cannot be mixed.
    """
    texts = [given] if isinstance(given, str) else [*given]
    made = []
    for text in texts:
        made.append(make_choice("augmentation", str(text), AUGMENTATIONS, "crop{pixels=4}"))
    if not made:
        return source
    images = {}
    for item in manifest.of_role(Role.INPUT):
        shape = item.spec.shape
        axis = next((at for at in (1, 3) if len(shape) == 4 and shape[at] in _CHANNELS), None)
        if axis and item.place and item.place.axis == 0:
            images[item.spec.name] = axis
    if not images:
        said = ", ".join(map(str, manifest.inputs))
        raise UsageError(
            f"{', '.join(map(str, made))}: augmentations are for images [samples, channels, "
            f"height, width]; the step takes {said}",
            where="augment",
            hint="leave them out",
        )
    whole = next((item for item in manifest.labels if item.classes), None)
    if whole and any(isinstance(each, Mixup) for each in made):
        raise UsageError(
            f"mixup mixes labels, and {whole.spec.name} are class numbers",
            where="augment",
            hint="compile with --loss 'cross-entropy{soft-labels=true}', and give a share for each "
            "class",
        )
    return Augmented(source, made, images)
