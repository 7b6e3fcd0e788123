"""Which weights of a step may stay in the files of its model, and why others do not."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odtc.core.artifact.base import hash_of
from odtc.core.artifact.beside import Beside, leads_out
from odtc.core.errors import UnsupportedError
from odtc.driver.training import Step
from odtc.frontend.weights.in_file import UNREADABLE, Elements, elements_in_files
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT

# What is smaller is in the artifact: all of these together are less than one matrix.
_LEAST = 1024
_SHOWN = 3


@dataclass(frozen=True)
class LeftBeside:
    """What an artifact leaves in the files of its model.

    Attributes:
        weights: that are there.
        notes: which files they are, and what else the artifact holds.
    """

    weights: Sequence[Beside]
    notes: Sequence[str]


def left_beside(model: Path, step: Step) -> LeftBeside:
    """Finds the bytes of weights in the files of a model.

    Args:
        model: path of its file.
        step: as it was built.

    Raises:
        UnsupportedError: there are none, or where they are is a link.
    """
    parameters = step.draft.graph.parameters
    folder = model.absolute().parent
    if leads_out(folder, model.name):
        raise UnsupportedError(
            f"{model.name} is a link that leads out of its folder, and trainers read no weights "
            "through such",
            where="weights_beside",
            hint="copy the file itself, with cp -L, and compile that",
        )
    large = {name: value for name, value in parameters.items() if value.nbytes >= _LEAST}
    places = _places(model, {value.nbytes for value in large.values()})
    weights = [
        Beside(name, digest, at.offset, os.path.relpath(at.path, folder))
        for name, value in large.items()
        if (at := places.get(digest := hash_of(value)))
    ]
    left = {each.name for each in weights}
    kept = {name: value for name, value in large.items() if name not in left}
    why = list(_reasons(step, kept))
    if not weights:
        raise UnsupportedError(
            "no weight of the step lies in the model's files as the step reads it"
            + "".join(f"; {each}" for each in why),
            where="weights_beside",
            hint="compile without --weights-beside; or save the model with external data, frozen "
            "weights in float32, float16, bfloat16 or as codes",
        )
    files = ", ".join(sorted({each.file for each in weights}))
    sizes = {name: value.nbytes for name, value in large.items()}
    note = (
        f"{len(weights)} weights, {sum(sizes[name] for name in left):,} bytes, stay in {files}, "
        "which a trainer needs beside the artifact"
    )
    copied = sum(each.offset % TENSOR_ALIGNMENT > 0 for each in weights)
    moved = (
        [
            f"{copied} of them begin there at no multiple of {TENSOR_ALIGNMENT} bytes, and are "
            "copied into memory"
        ]
        if copied
        else []
    )
    return LeftBeside(weights, ["; ".join([note, *moved, *why])])


def _places(model: Path, sizes: set[int]) -> dict[str, Elements]:
    """Where tensors of these sizes lie, by the hash of their bytes.

    Raises:
        UnsupportedError: the files cannot be read any more.
    """
    try:
        found = [each for each in elements_in_files(model) if each.size in sizes]
        # The first place of several: the same for each compile.
        return {
            hash_of(np.fromfile(each.path, np.uint8, each.size, offset=each.offset)): each
            for each in reversed(found)
        }
    except UNREADABLE as error:
        raise UnsupportedError(
            f"the model's files cannot be read again: {error}",
            where="weights_beside",
            hint="leave them as they are while the model is compiled",
        ) from error


def _reasons(step: Step, kept: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Why these weights are in the artifact."""
    graph = step.draft.graph
    rounded = {
        name
        for item in graph.coded.values()
        if not item.in_file and item.scale
        for name in (item.weight, *item.beside)
    }
    codes = {
        name
        for item in graph.coded.values()
        if item.in_file
        for name in (item.weight, *item.beside)
    }
    added = {name for each in step.draft.adapters for name in each.tensors}
    said = {
        "rounded by --quantize": rounded,
        "codes that the step reads in another order than the file has them": codes,
        "in the model's file as another type, or within a file of less than 16 MiB": (
            kept.keys() - rounded - codes - added
        ),
    }
    for why, names in said.items():
        found = sorted(names & kept.keys())
        if found:
            size = sum(kept[name].nbytes for name in found)
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            shown = ", ".join(found[:_SHOWN])
            yield f"{size:,} bytes are in the artifact: {shown}{more}, {why}"
