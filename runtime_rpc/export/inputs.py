"""Generated inputs for a model, and the same for another number of samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from odtc.core.ir.place import Place
from odtc.core.onnx_model.onnx_sizes import size_of
from odtc.core.specs import Argument

_SEED = 0
# Below the largest of int8, too.
_PIXELS = 128
_TABLES = ("Gather", "GatherElements")
# They pass on the numbers that they are given.
_SAME_NUMBERS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Batches:
    """The axes of samples in the inputs of a file, and the numbers of samples that it takes.

    Attributes:
        compiled: samples in the inputs that were made.
        axes: the dimensions of each input that are as many.
        counts: how many samples to run the file with, the compiled number first.
        fixed: whether the file takes no other number.
    """

    compiled: int
    axes: Mapping[str, Sequence[int]]
    counts: Sequence[int]
    fixed: bool

    def of(self, arrays: Mapping[str, np.ndarray], count: int) -> Arrays:
        """The first samples of each input; where there are fewer, they come again."""
        places = np.arange(count) % self.compiled
        taken = dict(arrays)
        for name, axes in self.axes.items():
            for axis in axes:
                taken[name] = taken[name].take(places, axis)
        return taken


def feeds_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are fed: up to IR version 3 initializers are inputs, too."""
    stored = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in stored]


def batches_of(
    graph: onnx.GraphProto, inputs: Sequence[Argument], arrays: Arrays, compiled: int
) -> Batches:
    """Finds the numbers of samples that a file takes.

    Args:
        graph: of the file.
        inputs: of the step; the first one that holds samples defines the batch.
        arrays: that were made for the inputs, and for those that no step takes.
        compiled: samples in them.
    """
    places = {item.spec.name: item.place for item in inputs if item.place}
    sizes = {v.name: _sizes(v) for v in feeds_of(graph) if v.name in arrays}
    first = next((name for name in places if name in sizes), None)
    batch = compiled if first is None else sizes[first][places[first].axis]
    if isinstance(batch, int):
        axes = {name: _changed(each, arrays[name].shape) for name, each in sizes.items()}
        return Batches(compiled, axes, (batch,), fixed=True)
    axes = {name: _named(each, batch, places.get(name)) for name, each in sizes.items()}
    return Batches(compiled, axes, (compiled, 1) if compiled > 1 else (1,), fixed=False)


def _sizes(value: onnx.ValueInfoProto) -> list[int | str]:
    return [size_of(dim) for dim in value.type.tensor_type.shape.dim]


def _changed(sizes: Sequence[int | str], shape: Sequence[int]) -> list[int]:
    """Dimensions that the step has in another size than the file."""
    pairs = enumerate(zip(sizes, shape, strict=True))
    return [axis for axis, (size, ours) in pairs if isinstance(size, int) and size != ours]


def _named(sizes: Sequence[int | str], name: str, place: Place | None) -> list[int]:
    """The dimension of the samples; in an input without, those of the batch's name."""
    if place:
        return [place.axis]
    return [axis for axis, size in enumerate(sizes) if name and size == name]


def made_inputs(graph: onnx.GraphProto, inputs: Iterable[Argument]) -> Arrays:
    """Seeded inputs of a step, in its shapes and types.

    Floats are normal, class and row numbers are any that the model knows, bytes are pixels. Of
    other integers and truth values nothing is known: they are ones, which masks, lengths and flags
    may be.
    """
    rng = np.random.default_rng(_SEED)
    rows = table_rows(graph)
    arrays = {}
    for item in inputs:
        shape, dtype, name = item.spec.shape, np.dtype(item.spec.dtype), item.spec.name
        most = item.classes.count if item.classes else rows.get(name)
        if most is None and dtype.itemsize == 1:
            most = _PIXELS
        if dtype.kind == "f":
            arrays[name] = rng.standard_normal(shape).astype(dtype)
        elif most and dtype.kind in "iu":
            arrays[name] = rng.integers(0, most, shape).astype(dtype)
        else:
            arrays[name] = np.ones(shape, dtype)
    return arrays


def as_the_file_takes(graph: onnx.GraphProto, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Converts arrays to a file's input types, with ones for inputs that no step has.

    Raises:
        ValueError: it has an input that is no tensor.
    """
    known: dict[int | str, int] = {}
    for value in feeds_of(graph):
        if value.name in arrays:
            known |= dict(zip(_sizes(value), arrays[value.name].shape, strict=True))
    fed = {}
    for value in feeds_of(graph):
        if not value.type.HasField("tensor_type"):
            raise ValueError(f"the input {value.name} is no tensor")
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [known.get(s, 1) if isinstance(s, str) else s for s in _sizes(value)]
        array = arrays.get(value.name)
        fed[value.name] = np.ones(shape, dtype) if array is None else array.astype(dtype)
    return fed


def table_rows(graph: onnx.GraphProto) -> dict[str, int]:
    """Number of rows of the table that each input has indices into; the least of several tables."""
    tables = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    origin = {value.name: value.name for value in feeds_of(graph)}
    rows: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _SAME_NUMBERS and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        if node.op_type not in _TABLES or not tables.get(node.input[0]):
            continue
        name = origin.get(node.input[1])
        axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
        if name is not None:
            size = tables[node.input[0]][axis]
            rows[name] = min(size, rows.get(name, size))
    return rows
