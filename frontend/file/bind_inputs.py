"""Gives every dimension of the inputs of a model a size, and inputs that are set their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odtc.core.errors import ModelError, UsageError
from odtc.core.ir.place import Place
from odtc.core.options.kinds import shown
from odtc.core.options.option_text import did_you_mean
from odtc.core.specs import TensorSpec
from odtc.frontend.feeds import Axes, Feed, InputOptions, batch_symbol, given_size

MAX_BATCH = 1 << 20
# Elements of an input whose value is given.
MAX_BOUND = 1 << 20


@dataclass(frozen=True)
class Bound:
    """Inputs of static shape.

    Attributes:
        specs: of what is fed, in order.
        places: where the samples lie in those that hold some.
        constants: values of those that are not fed.
        exported: the batch that the file was exported for, where that is fixed.
    """

    specs: tuple[TensorSpec, ...]
    places: dict[str, Place]
    constants: dict[str, np.ndarray]
    exported: int | None


def bind(
    feeds: Sequence[Feed], asked: InputOptions, axes: Axes, samples: int | None = None
) -> Bound:
    """Gives all dimensions of all inputs a size.

    Args:
        feeds: of the model.
        asked: what the user says of them.
        axes: along which the samples lie.
        samples: of a batch; what the user or the model says if None.

    Raises:
        UsageError: a size is missing or does not fit, the batch is not in [1, 2**20], or it is
            given and only inputs have it whose values are set.
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
    if asked.batch is not None and not places:
        held = ", ".join(name for name in constants if axes.get(name) is not None)
        raise UsageError(
            f"a batch of {asked.batch} is given, but each input that holds it is set to a value: "
            f"{held}; no input that is fed has samples",
            where=f"input {held}",
            hint="feed it, or leave --batch out; if another input holds the batch, pass "
            "--batch-axis NAME=AXIS",
        )
    exported = [feed.dims[axis] for feed in feeds if (axis := axes.get(feed.name)) is not None]
    fixed = next((dim for dim in exported if isinstance(dim, int)), None)
    return Bound(fed, places, constants, fixed if symbol is None else None)


def _said_batch(
    feeds: Sequence[Feed], asked: InputOptions, axes: Axes, symbol: str | None
) -> int | None:
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
    said += [given_size(feed, axis, asked) for feed, axis in cut]
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
    asked: InputOptions,
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
    sizes = {**_by_inputs(feeds, asked), **sizes}
    for feed in feeds:
        shape = []
        for axis, dim in enumerate(feed.dims):
            size: int | None = given_size(feed, axis, asked)
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


def _by_inputs(feeds: Sequence[Feed], asked: InputOptions) -> dict[str, int]:
    """Sizes of symbols that are given by an input's, for other inputs that have them."""
    found: dict[str, int] = {}
    for feed in feeds:
        given = asked.shape.get(feed.name)
        if isinstance(given, Sequence):
            pairs = zip(feed.dims, given, strict=True)
            found |= {dim: size for dim, size in pairs if isinstance(dim, str) and dim}
    return found


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
    """The error for dimensions without a size."""
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


def _check_names(feeds: Sequence[Feed], asked: InputOptions) -> None:
    """Checks that sizes and values are of inputs and symbols that there are.

    Raises:
        UsageError: they are not, or an input has another rank.
    """
    inputs = {feed.name: feed for feed in feeds}
    symbols = {dim for feed in feeds for dim in feed.dims if isinstance(dim, str) and dim}
    for name, sizes in asked.shape.items():
        if name in inputs and len(inputs[name].dims) == 1:
            continue
        if isinstance(sizes, int) and name not in symbols:
            raise UsageError(
                f"the model has no symbolic dimension {name}",
                hint=f"{did_you_mean(name, symbols)}it has {', '.join(sorted(symbols)) or 'none'}",
            )
        if not isinstance(sizes, int):
            _check_rank(inputs.get(name), name, sizes)
    for name in asked.set_inputs:
        if name not in inputs:
            raise UsageError(
                f"the model has no input {name!r} to set",
                hint=f"{did_you_mean(name, inputs)}it has {', '.join(inputs)}",
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
                f"the model has no input or output {name!r}, whose batch axis is given",
                hint=f"{did_you_mean(name, known)}it has {', '.join(known)}",
            )


def _array(value: Any) -> np.ndarray:
    """The value as an array; one of objects where it is none."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(None)


def _value(spec: TensorSpec, value: Any) -> np.ndarray:
    """The value of an input that is not fed, of its shape and dtype; a number fills the shape.

    Raises:
        UsageError: it has another shape, or does not fit the dtype.
    """
    given = _array(value)
    if given.dtype.kind not in "biuf" or spec.size > MAX_BOUND:
        raise UsageError(
            f"{shown(value)} cannot be the value of {spec}",
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
            f"{shown(value)} is not of the dtype {spec.dtype}",
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
