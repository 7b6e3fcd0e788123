"""The inputs of a model as a caller feeds them: their sizes, and the axes along which samples lie.

Which dimension of an input is the batch is taken from the file where it says so: by the name of a
symbolic dimension, which other inputs may have elsewhere. A file of a fixed batch does not say, and
inputs may have other dimensions of that size: `hypotheses` gives what it may mean, the likeliest
first; the one is taken by which the graph computes each sample alone (`frontend/split/locate.py`).
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from odtc.core.errors import ModelError, UsageError
from odtc.core.onnx_model.onnx_sizes import size_of
from odtc.frontend.graph import numpy_dtype

# Of what a fixed batch may mean, so much is tried.
_MOST_HYPOTHESES = 8
_BATCH_NAME = re.compile(r"n|b|bs|nb|.*batch.*", re.IGNORECASE)
# What exporters write for a dimension without a name.
_NAMELESS = frozenset(("", "?", "none", "-1"))

# The axis of each input along which the samples lie; None for one that is the same for all.
Axes = Mapping[str, int | None]
Shapes = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True)
class InputOptions:
    """The options of a user for the inputs of a model.

    Attributes:
        batch: samples in a step; None where the model or `shape` says it.
        shape: sizes of symbolic dimensions by name, and of all dimensions of an input by its name.
        batch_axes: the axis along which the samples lie in an input or output; None for none.
        set_inputs: values of inputs that are not fed.
    """

    batch: int | None = None
    shape: Shapes = field(default_factory=dict)
    batch_axes: Axes = field(default_factory=dict)
    set_inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Feed:
    """An input as the file declares it.

    Attributes:
        name: of the input.
        dtype: numpy dtype name.
        dims: sizes; the names of symbolic ones, empty where they have none.
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...]


def feeds_of(model: onnx.ModelProto) -> list[Feed]:
    """The inputs that a caller feeds: up to IR version 3 initializers are inputs too.

    Raises:
        ModelError: there is none.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in initializers]
    if not fed:
        raise ModelError("the model has no input to feed", hint="export it with an input")
    return [
        Feed(
            value.name,
            numpy_dtype(value.type.tensor_type.elem_type),
            tuple(map(_dim, value.type.tensor_type.shape.dim)),
        )
        for value in fed
    ]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    size = size_of(dim)
    return "" if isinstance(size, str) and size.lower() in _NAMELESS else size


def batch_symbol(feeds: Sequence[Feed], batch_axes: Axes) -> str | None:
    """Name of the symbolic batch, empty where it has none; None where the batch is fixed.

    That is the dimension that the user says; else one that is called so; else the first dimension
    of the first input; else one that is the first of another input.
    """
    ranked = [feed for feed in feeds if feed.dims and batch_axes.get(feed.name, 0) is not None]
    said = [(feed, _axis(feed, batch_axes)) for feed in ranked if feed.name in batch_axes]
    for feed, axis in said:
        dim = 0 if axis is None else feed.dims[axis]
        return dim if isinstance(dim, str) else None
    symbols = {dim for feed in ranked for dim in feed.dims if isinstance(dim, str) and dim}
    called = {name for name in symbols if _BATCH_NAME.fullmatch(name)}
    if len(called) == 1:
        return called.pop()
    leading = [feed.dims[0] for feed in ranked]
    if leading and isinstance(leading[0], str):
        return leading[0]
    shared = [dim for dim in (ranked[0].dims if ranked else ()) if dim and dim in leading]
    return next((dim for dim in shared if isinstance(dim, str)), None)


def hypotheses(feeds: Sequence[Feed], asked: InputOptions) -> Iterator[Axes]:
    """Where the samples may lie in the inputs, the likeliest first.

    Raises:
        UsageError: the user says it of an input that has no such axis.
        ModelError: no input has a dimension.
    """
    symbol = batch_symbol(feeds, asked.batch_axes)
    ranked = [feed for feed in feeds if feed.dims]
    if not ranked:
        raise ModelError("the input is a scalar or has no shape", where=f"input {feeds[0].name}")
    given = {f.name: _axis(f, asked.batch_axes) for f in feeds if f.name in asked.batch_axes}
    if symbol is not None:
        size = asked_batch(feeds, asked, symbol)
        choices = {feed.name: _where_symbolic(feed, symbol, asked, size) for feed in feeds}
        yield from _products(choices, given)
        return
    said = [feed for feed in ranked if given.get(feed.name) is not None]
    silent = [feed for feed in ranked if feed.name not in given]
    lead = next(iter((*said, *silent)), None)
    if lead is None:
        yield dict.fromkeys((feed.name for feed in feeds), None)
        return
    axes = [given[lead.name]] if lead in said else range(len(lead.dims))
    found = (
        each
        for axis in axes
        if axis is not None and isinstance(lead.dims[axis], int)
        for each in _products(
            {feed.name: _of_size(feed, lead.dims[axis]) for feed in feeds},
            {**given, lead.name: axis},
        )
    )
    yield from itertools.islice(found, _MOST_HYPOTHESES)


def _axis(feed: Feed, batch_axes: Axes) -> int | None:
    axis = batch_axes[feed.name]
    return None if axis is None else checked_axis(axis, len(feed.dims), f"input {feed.name}")


def checked_axis(axis: int, rank: int, where: str) -> int:
    """An axis from 0, of a tensor of that rank.

    Raises:
        UsageError: it has no such axis.
    """
    if not -rank <= axis < rank:
        raise UsageError(
            f"the batch axis {axis} is outside the {rank} dimensions",
            where=where,
            hint="give an axis that it has, or none: --batch-axis NAME=none",
        )
    return axis % rank


def _products(choices: Mapping[str, Sequence[int | None]], given: Axes) -> Iterator[Axes]:
    """Each choice with each other, the first ones of all first."""
    of_each = [[given[name]] if name in given else found for name, found in choices.items()]
    for axes in itertools.islice(itertools.product(*of_each), _MOST_HYPOTHESES):
        yield dict(zip(choices, axes, strict=True))


def _of_size(feed: Feed, size: int | str) -> list[int | None]:
    return [*(axis for axis, dim in enumerate(feed.dims) if dim == size), None]


def _where_symbolic(
    feed: Feed, symbol: str, asked: InputOptions, size: int | None
) -> Sequence[int | None]:
    """Axes of an input that may hold the samples, where the batch is a symbol."""
    if symbol and symbol in feed.dims:
        sized = isinstance(asked.shape.get(feed.name), Sequence)
        # A square of samples, such as an adjacency matrix, has no axis of its own.
        return [feed.dims.index(symbol) if sized or feed.dims.count(symbol) == 1 else None]
    first = feed.dims[0] if feed.dims else 1
    if first == "" and given_size(feed, 0, asked) is None:
        return [0]
    nameless = [axis for axis, dim in enumerate(feed.dims) if dim == ""]
    likely = [axis for axis in nameless if size and given_size(feed, axis, asked) == size]
    if likely:
        return [*likely, None]
    if isinstance(first, str) and first and asked.shape.get(first) == size is not None:
        # Exporters give each input a symbol of its own.
        return [0, None]
    return [None]


def given_size(feed: Feed, axis: int, asked: InputOptions) -> int | None:
    """The size that the user gives a dimension of an input; None where there is none."""
    sizes = asked.shape.get(feed.name)
    if isinstance(sizes, int) and len(feed.dims) == 1:
        return sizes
    if isinstance(sizes, Sequence):
        return sizes[axis] if axis < len(sizes) else None
    dim = feed.dims[axis]
    named = asked.shape.get(dim) if isinstance(dim, str) and dim else None
    return named if isinstance(named, int) else None


def asked_batch(feeds: Sequence[Feed], asked: InputOptions, symbol: str) -> int | None:
    """Samples in a step, as the user gives them for a symbolic batch; None where they are not."""
    if asked.batch is not None:
        return asked.batch
    sizes = asked.shape.get(symbol) if symbol else None
    if isinstance(sizes, int):
        return sizes
    found = (
        given_size(feed, feed.dims.index(symbol), asked) for feed in feeds if symbol in feed.dims
    )
    return next((size for size in found if size is not None), None)


def lacks_batch(model: onnx.ModelProto, asked: InputOptions) -> bool:
    """Whether the batch is symbolic, and the user gives it no size."""
    feeds = feeds_of(model)
    symbol = batch_symbol(feeds, asked.batch_axes)
    return symbol is not None and asked_batch(feeds, asked, symbol) is None
