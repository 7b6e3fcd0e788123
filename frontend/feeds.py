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

import numpy as np
import onnx

from odtc.core.errors import ModelError, UsageError
from odtc.core.place import Place
from odtc.core.specs import TensorSpec
from odtc.frontend.graph import numpy_dtype

MAX_BATCH = 1 << 20
# Elements of an input whose value is given.
MAX_BOUND = 1 << 20
# Of what a fixed batch may mean, so much is tried.
_MOST_HYPOTHESES = 8
_BATCH_NAME = re.compile(r"n|b|bs|nb|.*batch.*", re.IGNORECASE)
# What exporters write for a dimension without a name.
_NAMELESS = frozenset(("", "?", "none", "-1"))

# The axis of each input along which the samples lie; None for one that is the same for all.
Axes = Mapping[str, int | None]
Shapes = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True)
class Asked:
    """What a user says of the inputs of a model.

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


@dataclass(frozen=True)
class Bound:
    """Inputs of static shape.

    Attributes:
        specs: of what is fed, in order.
        places: where the samples lie in those that hold some.
        constants: values of those that are not fed.
        exported: the batch that the file was exported for, where it is another.
    """

    specs: tuple[TensorSpec, ...]
    places: dict[str, Place]
    constants: dict[str, np.ndarray]
    exported: int | None


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
    if dim.HasField("dim_value"):
        return dim.dim_value
    return "" if dim.dim_param.lower() in _NAMELESS else dim.dim_param


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


def hypotheses(feeds: Sequence[Feed], asked: Asked) -> Iterator[Axes]:
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
        size = _asked_batch(feeds, asked, symbol)
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
            f"the batch axis {axis} is none of {rank} dimensions",
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
    feed: Feed, symbol: str, asked: Asked, size: int | None
) -> Sequence[int | None]:
    """Axes of an input that may hold the samples, where the batch is a symbol."""
    if symbol and symbol in feed.dims:
        sized = isinstance(asked.shape.get(feed.name), Sequence)
        # A square of samples, such as an adjacency matrix, has no axis of its own.
        return [feed.dims.index(symbol) if sized or feed.dims.count(symbol) == 1 else None]
    first = feed.dims[0] if feed.dims else 1
    if first == "" and _given_size(feed, 0, asked) in (None, size):
        return [0]
    if isinstance(first, str) and first and asked.shape.get(first) == size is not None:
        # Exporters give each input a symbol of its own.
        return [0, None]
    return [None]


def _given_size(feed: Feed, axis: int, asked: Asked) -> int | None:
    """The size that the user gives a dimension of an input."""
    sizes = asked.shape.get(feed.name)
    if isinstance(sizes, Sequence):
        return sizes[axis] if axis < len(sizes) else None
    dim = feed.dims[axis]
    named = asked.shape.get(dim) if isinstance(dim, str) and dim else None
    return named if isinstance(named, int) else None


def _asked_batch(feeds: Sequence[Feed], asked: Asked, symbol: str) -> int | None:
    if asked.batch is not None:
        return asked.batch
    sizes = asked.shape.get(symbol) if symbol else None
    if isinstance(sizes, int):
        return sizes
    found = (
        _given_size(feed, feed.dims.index(symbol), asked) for feed in feeds if symbol in feed.dims
    )
    return next((size for size in found if size is not None), None)


def lacks_batch(model: onnx.ModelProto, asked: Asked) -> bool:
    """Whether the batch is symbolic, and the user gives it no size."""
    feeds = feeds_of(model)
    symbol = batch_symbol(feeds, asked.batch_axes)
    return symbol is not None and _asked_batch(feeds, asked, symbol) is None


def bind(feeds: Sequence[Feed], asked: Asked, axes: Axes, samples: int | None = None) -> Bound:
    """Gives all dimensions of all inputs a size.

    Args:
        feeds: of the model.
        asked: what the user says of them.
        axes: along which the samples lie.
        samples: of a batch; what the user or the model says if None.

    Raises:
        UsageError: a size is missing or does not fit, or the batch is not in [1, 2**20].
        ModelError: an input has no elements.
    """
    _check_names(feeds, asked)
    symbol = batch_symbol(feeds, asked.batch_axes)
    said = _said_batch(feeds, asked, axes, symbol)
    batch = said if samples is None else samples
    if batch is not None and not 1 <= batch <= MAX_BATCH:
        raise UsageError(f"batch {batch} is outside [1, {MAX_BATCH}]", hint="pass --batch 4")
    if symbol is not None and batch is None:
        where = next(f for f in feeds if symbol in f.dims and (axes.get(f.name) is not None))
        raise UsageError(
            f"the model's batch dimension {symbol or '?'!r} is symbolic",
            where=f"input {where.name}",
            hint="give the number of samples in a step, such as --batch 4",
        )
    shapes = _shapes(feeds, asked, axes, {symbol: batch} if symbol and batch else {}, batch)
    specs = {
        feed.name: TensorSpec(feed.name, shape, feed.dtype)
        for feed, shape in zip(feeds, shapes, strict=True)
    }
    constants = {name: _value(specs[name], value) for name, value in asked.set_inputs.items()}
    fed = tuple(spec for name, spec in specs.items() if name not in constants)
    places = {spec.name: Place(axis) for spec in fed if (axis := axes.get(spec.name)) is not None}
    exported = [feed.dims[axis] for feed in feeds if (axis := axes.get(feed.name)) is not None]
    fixed = next((dim for dim in exported if isinstance(dim, int)), None)
    return Bound(fed, places, constants, fixed if symbol is None and fixed != batch else None)


def _said_batch(feeds: Sequence[Feed], asked: Asked, axes: Axes, symbol: str | None) -> int | None:
    """Samples in a step, as the user says, or the model.

    Raises:
        UsageError: the user says two numbers, or gives a number where there is no batch.
    """
    cut = [(feed, axis) for feed in feeds if (axis := axes.get(feed.name)) is not None]
    if asked.batch is not None and not cut:
        raise UsageError(
            f"a batch of {asked.batch} is given, and no input has a batch",
            hint="leave it out, or say where it is: --batch-axis NAME=AXIS",
        )
    said = [asked.batch, asked.shape.get(symbol) if symbol else None]
    said += [_given_size(feed, axis, asked) for feed, axis in cut]
    numbers = list(dict.fromkeys(number for number in said if isinstance(number, int)))
    if len(numbers) > 1:
        raise UsageError(
            f"the batch is given as {numbers[0]} and as {numbers[1]}",
            hint="give it once, by --batch or by --shape",
        )
    fixed = [dim for feed, axis in cut if isinstance(dim := feed.dims[axis], int)]
    return next(iter((*numbers, *(fixed if symbol is None else ()))), None)


def _shapes(
    feeds: Sequence[Feed],
    asked: Asked,
    axes: Axes,
    sizes: Mapping[str, int],
    batch: int | None,
) -> list[tuple[int, ...]]:
    """The shape of each input.

    Raises:
        UsageError: a dimension has no size, or another one than the model's.
        ModelError: the input has no elements.
    """
    shapes, missing = [], []
    for feed in feeds:
        shape = []
        for axis, dim in enumerate(feed.dims):
            size: int | None = _given_size(feed, axis, asked)
            if batch is not None and axes.get(feed.name) == axis:
                size = batch
            elif isinstance(dim, int):
                _check_given(feed, axis, dim, size)
                size = dim
            elif size is None:
                size = sizes.get(dim)
            if size is None:
                missing.append((feed, dim))
            shape.append(size or 0)
        shapes.append(tuple(shape))
    if missing:
        raise _without_size(missing, axes, batch)
    for feed, shape in zip(feeds, shapes, strict=True):
        if any(size <= 0 for size in shape):
            raise ModelError(
                f"the input has an empty shape {list(shape)}", where=f"input {feed.name}"
            )
    return shapes


def _check_given(feed: Feed, axis: int, dim: int, size: int | None) -> None:
    if size not in (None, dim):
        raise UsageError(
            f"axis {axis} is given the size {size}; the model has {dim} there",
            where=f"input {feed.name}",
            hint=f"give the sizes that it has; if the samples lie there, --batch-axis "
            f"{feed.name}={axis}",
        )


def _without_size(
    missing: Sequence[tuple[Feed, int | str]], axes: Axes, batch: int | None
) -> UsageError:
    """What is said of dimensions without a size."""
    names = list(dict.fromkeys(str(dim) for _, dim in missing))
    feed = next((feed for feed, dim in missing if not dim), missing[0][0])
    known = dict(enumerate(dim if isinstance(dim, int) else 64 for dim in feed.dims))
    if (axis := axes.get(feed.name)) is not None:
        known[axis] = batch or 1
    sizes = "x".join(map(str, known.values()))
    example = f"{feed.name}={sizes}" if "" in names else f"{names[0]}=128"
    return UsageError(
        f"symbolic dimensions without a size: {', '.join(name or '?' for name in names)}",
        where=f"input {feed.name}",
        hint=f"give each a size: --shape {example}",
    )


def _check_names(feeds: Sequence[Feed], asked: Asked) -> None:
    """Checks that sizes and values are of inputs and symbols that there are.

    Raises:
        UsageError: they are not, or an input has another rank.
    """
    inputs = {feed.name: feed for feed in feeds}
    symbols = {dim for feed in feeds for dim in feed.dims if isinstance(dim, str) and dim}
    for name, sizes in asked.shape.items():
        if isinstance(sizes, int) and name not in symbols:
            raise UsageError(
                f"the model has no symbolic dimension {name}",
                hint=f"it has {', '.join(sorted(symbols)) or 'none'}",
            )
        if not isinstance(sizes, int):
            _check_rank(inputs.get(name), name, sizes)
    for name in asked.set_inputs:
        if name not in inputs:
            raise UsageError(
                f"the model has no input {name!r} to set", hint=f"it has {', '.join(inputs)}"
            )


def _check_rank(feed: Feed | None, name: str, sizes: Sequence[int]) -> None:
    if feed is None:
        raise UsageError(
            f"the model has no input {name!r} to give sizes", hint="give them by an input's name"
        )
    if len(sizes) != len(feed.dims):
        dims = [dim or "?" for dim in feed.dims]
        raise UsageError(
            f"{len(sizes)} sizes are given for the {len(dims)} dimensions {dims}",
            where=f"input {name}",
            hint=f"give one for each: --shape {name}={'x'.join('N' for _ in dims)}",
        )


def check_batch_axes(batch_axes: Axes, known: Sequence[str]) -> None:
    """Checks that batch axes are of inputs and outputs that there are.

    Raises:
        UsageError: one is not.
    """
    for name in batch_axes:
        if name not in known:
            raise UsageError(
                f"the model has no input or output {name!r} to say the batch axis of",
                hint=f"it has {', '.join(known)}",
            )


def _value(spec: TensorSpec, value: Any) -> np.ndarray:
    """The value of an input that is not fed, of its shape and dtype; a number fills the shape.

    Raises:
        UsageError: it has another shape, or does not fit the dtype.
    """
    given = np.asarray(value)
    if given.dtype.kind not in "biuf" or spec.size > MAX_BOUND:
        raise UsageError(
            f"{value!r} cannot be the value of {spec}",
            where=f"input {spec.name}",
            hint=f"give numbers, of at most {MAX_BOUND} elements",
        )
    if given.size != 1 and given.shape != spec.shape:
        raise UsageError(
            f"the value has shape {list(given.shape)}; the input is {spec}",
            where=f"input {spec.name}",
            hint="give one number, or one for each element",
        )
    if not _holds(np.dtype(spec.dtype), given):
        raise UsageError(
            f"{value!r} is not of the dtype {spec.dtype}",
            where=f"input {spec.name}",
            hint=f"give numbers that {spec.dtype} holds",
        )
    filled = np.broadcast_to(given.reshape(()) if given.size == 1 else given, spec.shape)
    return filled.astype(spec.dtype)


def _holds(dtype: np.dtype, given: np.ndarray) -> bool:
    """Whether a dtype has the numbers; floats are rounded."""
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    if dtype.kind == "f":
        return bool(np.array_equal(np.isfinite(found), np.isfinite(given)))
    return bool(np.all(found == given))
