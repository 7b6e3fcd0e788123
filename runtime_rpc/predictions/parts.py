"""Outputs of a step for many samples, so many at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import join
from odtc.core.printable import printable
from odtc.runtime_rpc.data.source import Arrays, Source
from odtc.runtime_rpc.loop.measured.at_once import samples_at_once


class Predicting(Protocol):
    """A trainer, as predictions see it.

    Attributes:
        progress: of a run, as text.
    """

    progress: str

    @property
    def manifest(self) -> Manifest: ...  # noqa: D102

    @property
    def _columns(self) -> Mapping[str, Sequence[str]]: ...

    def can_fill_rows(self) -> bool: ...  # noqa: D102

    def _evaluated(self, x: Any, output: str | None, *, ema: bool) -> np.ndarray: ...


def feeds_of(
    source: Source, manifest: Manifest, evaluated: Sequence[Evaluation]
) -> Iterator[Arrays]:
    """The inputs of all samples, so many at a time.

    An output of which nothing shows where its samples lie is one of a whole batch: all samples come
    at once then, and where they are no batch, its evaluation says so.

    Args:
        source: of the samples.
        manifest: of the step.
        evaluated: the outputs that are asked for.
    """
    is_whole = any(each.place is None for each in evaluated)
    size = len(source) if is_whole else samples_at_once(manifest, evaluated)
    return (x for x, _ in source.parts(size))


def outputs_of(
    trainer: Predicting, feeds: Iterable[Any], evaluated: Sequence[Evaluation], *, ema: bool
) -> Iterator[dict[str, np.ndarray]]:
    """The outputs of what is fed, by name, for each part as it is asked for.

    Raises:
        OdtcError: as of `Trainer.evaluate`.
    """
    names = [each.output.name for each in evaluated]
    for x in feeds:
        yield {name: trainer._evaluated(x, name, ema=ema) for name in names}


def joined(parts: Sequence[np.ndarray], evaluation: Evaluation) -> np.ndarray:
    """Parts of an output, as one of all samples.

    Raises:
        DataError: there are none; or they are no parts of one array, such as rows of several
            lengths, or of an output of whole batches.
    """
    if not parts:
        raise DataError("there are no samples", where="data", hint="give one that has some")
    if len(parts) == 1:
        return parts[0]
    name, place = printable(evaluation.output.name), evaluation.place
    if place is None:
        raise DataError(
            f"nothing shows where the samples lie in {name}: {len(parts)} batches of it do not "
            "form one output",
            where="data",
            hint=f"predict a batch at a time; or compile with --batch-axis {name}=AXIS",
        )
    shapes = {place.shape_of(part.shape, 0) for part in parts}
    if len(shapes) > 1:
        sizes = " and ".join(str([*part.shape]) for part in (parts[0], _other(parts)))
        raise DataError(
            f"batches give {name} of several shapes, such as {sizes}",
            where="data",
            hint="fill all rows up to the same length, or predict a batch at a time",
        )
    return join(parts, place)


def _other(parts: Sequence[np.ndarray]) -> np.ndarray:
    """A part whose rank or sizes are not those of the first, but for the samples."""
    return max(parts, key=lambda part: part.shape[1:] != parts[0].shape[1:])
