"""Frozen matrices of a float file are rounded to codes of 4 or 8 bits, by blocks of terms.

What is trained stays float32, and what no product or embedding reads stays as it is. Codes are
rounded to nearest. Of 8 bits they are signed, as the middle is lost in no case worth a zero point.
Of 4 bits a block has a zero point, too: over blocks of 32 the error of normal weights is 8.1% with
it, and without 8.6% or 9.7%, as the largest element is on one side or either; of weights with
longer tails the gain is larger. It takes an eighth of a bit for each 8 bits of the scale.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from odtc.core.coded import AS_IT_IS, NIBBLES, Coded, paired
from odtc.core.disk.mapped_arrays import leave_pages
from odtc.core.errors import ModelError, UsageError
from odtc.core.options.arguments import plainly_made
from odtc.core.options.checked_options import check_options, count, format_choice, make_choice
from odtc.core.specs import free_name
from odtc.frontend.graph import Graph
from odtc.frontend.trained.product_weights import term_axes
from odtc.frontend.trained.selection import Selection

QUANTIZE_FORM = "int4{block=32}"
# Elements of a part whose error is added up at once, in float64.
_PART = 1 << 20
# Elements that are rounded at once: temporaries, several times as large, stay in a core's cache.
_AT_ONCE = 1 << 15


@plainly_made
@dataclass(frozen=True)
class Int4:
    """Codes of 4 bits, with a zero point for each block.

    Args:
        block: terms of a product's sums that have one scale.
    """

    block: int = count(32)

    def __post_init__(self) -> None:
        check_options(self)


@plainly_made
@dataclass(frozen=True)
class Int8:
    """Codes of 8 bits, symmetric.

    Args:
        block: terms of a product's sums that have one scale; all of an output channel if None.
    """

    block: int | None = count(None)

    def __post_init__(self) -> None:
        check_options(self)


Format = Int4 | Int8
FORMATS: Mapping[str, type[Format]] = {"int4": Int4, "int8": Int8}


@dataclass(frozen=True)
class Rounded:
    """A matrix as codes.

    Attributes:
        codes, scale, zero: the tensors; without a zero point where it is zero.
        error: norm of the difference, over the norm of the matrix.
    """

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None
    error: float


# What was rounded, by the weight's name and the axis along which blocks lie.
Held = dict[tuple[str, int], Rounded]


def parse_format(text: str) -> Format:
    """Reads `int4{block=32}` or `int8`.

    Raises:
        UsageError: the text is malformed, or names a format, an option or a value that is none.
    """
    return make_choice("quantization", text, FORMATS, QUANTIZE_FORM)


def format_text(form: Format) -> str:
    """The format as text; the inverse of `parse_format`."""
    name = next(name for name, kind in FORMATS.items() if isinstance(form, kind))
    return format_choice(name, {"block": form.block} if form.block else {})


def quantise_frozen(
    graph: Graph, axes: Mapping[str, int], form: Format, held: Held, broken: frozenset[str]
) -> None:
    """Puts codes in the place of matrices, in place, and notes it.

    Args:
        graph: normalised.
        axes: by the name of a matrix, the axis of the terms: see `frozen_axes`.
        form: how they are stored.
        held: what was rounded before, of the same model; is added to.
        broken: names of weights that are not finite.

    Raises:
        ModelError: one of the matrices is not finite.
    """
    taken = {*graph.shapes, *graph.parameters, *graph.constants}
    for name in [each for each in graph.parameters if each in axes]:
        if name in broken:
            raise ModelError(
                "the weight has elements that are not finite, and cannot be quantized",
                where=f"initializer {name}",
                hint="export the model with weights that are finite, or leave --quantize out",
            )
        axis, shape = axes[name], graph.parameters[name].shape
        if (name, axis) not in held:
            held[name, axis] = rounded(graph.parameters[name], axis, form)
        found = held[name, axis]
        scale, zero = free_name(f"{name}.scale", taken), free_name(f"{name}.zero", taken)
        tensors = {name: found.codes, scale: found.scale}
        if found.zero is not None:
            tensors[zero] = found.zero
        taken |= tensors.keys()
        graph.parameters |= tensors
        blocks = [1, 1]
        blocks[axis] = form.block or shape[axis]
        graph.coded[name] = Coded(
            name,
            NIBBLES if isinstance(form, Int4) else AS_IT_IS,
            (int(shape[0]), int(shape[1])),
            tuple(blocks),
            scale,
            zero if zero in tensors else "",
            error=found.error,
        )
    graph.notes.append(_said_of(graph, form))


def _said_of(graph: Graph, form: Format) -> str:
    coded = graph.coded.values()
    worst = max(coded, key=lambda each: each.error)
    count = "1 frozen matrix is" if len(coded) == 1 else f"{len(coded)} frozen matrices are"
    return (
        f"{count} quantized to {format_text(form)}: losses, evaluations and exports are those of "
        f"the rounded weights, which a merged model has as floats; the largest error is "
        f"{worst.error:.2%}, of {worst.weight}"
    )


def frozen_axes(graph: Graph, selection: Selection) -> dict[str, int]:
    """The matrices that can be quantised, and the axis of each along which products add up.

    Args:
        graph: of the model, not yet normalised.
        selection: what is trained.

    Raises:
        UsageError: there are none.
    """
    found = {name: axis for name, axis in term_axes(graph).items() if name not in selection.trained}
    if not found:
        raise UsageError(
            "there is nothing to quantize: no matrix that a product or an embedding reads is "
            "frozen",
            where="quantize",
            hint="train adapters in addition to the weights (--lora rank=8), or only some of the "
            "weights (--train GLOB); weights that are trained stay float32",
        )
    return found


def rounded(matrix: np.ndarray, axis: int, form: Format) -> Rounded:
    """Rounds a matrix to codes; what it is mapped from is not kept in memory.

    Args:
        matrix: float32, of two dimensions.
        axis: along which blocks lie.
        form: how it is stored.
    """
    rows = matrix if axis == 1 else matrix.T
    block = min(form.block or rows.shape[1], rows.shape[1])
    parts = max(1, _PART // rows.shape[1])
    at_once = max(1, _AT_ONCE // rows.shape[1])
    of_blocks = _of_blocks(form)
    codes, scales, zeros = [], [], []
    lost, whole = 0.0, 0.0
    for start in range(0, len(rows), parts):
        part = np.asarray(rows[start : start + parts], np.float32)
        # What fills up the last block widens no range.
        missing = -part.shape[1] % block
        filled = np.pad(part, [(0, 0), (0, missing)], mode="edge") if missing else part
        filled = filled.reshape(len(part), -1, block)
        back = np.empty(filled.shape, np.float32)
        for first in range(0, len(part), at_once):
            some = slice(first, first + at_once)
            code, scale, zero = of_blocks(filled[some])
            offset = np.float32(0) if zero is None else zero[..., None].astype(np.float32)
            np.multiply(code.astype(np.float32) - offset, scale[..., None], out=back[some])
            codes.append(code.reshape(len(code), -1)[:, : part.shape[1]])
            scales.append(scale)
            zeros.append(zero)
        error = back.reshape(len(part), -1)[:, : part.shape[1]] - part
        lost += float(np.square(error, dtype=np.float64).sum())
        whole += float(np.square(part, dtype=np.float64).sum())
    leave_pages([matrix])
    joined = _turned(np.concatenate(codes), axis)
    return Rounded(
        paired(joined) if isinstance(form, Int4) else joined,
        _turned(np.concatenate(scales), axis),
        None if zeros[0] is None else _turned(np.concatenate(zeros), axis),
        float(np.sqrt(lost / whole)) if whole else 0.0,
    )


def _turned(rows: np.ndarray, axis: int) -> np.ndarray:
    return np.ascontiguousarray(rows if axis == 1 else rows.T)


# From float32 blocks to codes, and for each block a scale and a zero point, or None for zero.
_OfBlocks = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray | None]]


def _of_blocks(form: Format) -> _OfBlocks:
    return _unsigned4 if isinstance(form, Int4) else _signed8


def _signed8(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    scale = _scale(np.abs(blocks).max(-1), 127)
    codes = np.clip(np.rint(blocks / scale[..., None]), -127, 127)
    return codes.astype(np.int8), scale, None


def _unsigned4(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # Zero is in the range, so that it is a code itself.
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    scale = _scale(high - low, 15)
    zero = np.clip(np.rint(-low / scale), 0, 15)
    codes = blocks / scale[..., None]
    np.rint(codes, out=codes)
    codes += zero[..., None]
    np.clip(codes, 0, 15, out=codes)
    return codes.astype(np.uint8), scale, zero.astype(np.uint8)


def _scale(span: np.ndarray, steps: int) -> np.ndarray:
    """The size of a step; where all is zero, or too small for a float to say it, one."""
    scale = (span / np.float32(steps)).astype(np.float32)
    return np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1))
