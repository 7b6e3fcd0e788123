"""Determinants of small matrices.

Up to three rows they are a sum of products. Others are eliminated with the largest element that is
left as the pivot: so a pivot is zero only where nothing else is left, and a singular matrix has its
gradient, too.
"""

import math
from collections.abc import Sequence

import numpy as np

from odtc.frontend.operators.forms import reshape, split_axis
from odtc.frontend.operators.operator import Emit, Node, Operator, is_float
from odtc.frontend.operators.reduction import reduce

MOST_ROWS = 32
_BY_PRODUCTS = 3


def _square(node: Node) -> str:
    """Square matrices of floats, of at most 32 rows."""
    shape = node.graph.shapes.get(node.inputs[0])
    if shape is None:
        return "the input's shape is not static"
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return f"the input's shape {list(shape)} is not that of square matrices"
    if not is_float(node.dtype()):
        return f"only floats are supported, not {node.dtype()}"
    return "" if shape[-1] <= MOST_ROWS else f"{shape[-1]} rows; at most {MOST_ROWS} are supported"


def _det(node: Node, emit: Emit) -> str:
    *lead, rows, _ = node.shape()
    count = math.prod(lead)
    if rows <= _BY_PRODUCTS:
        flat = reshape(emit, node.inputs[0], count, rows * rows)
        parts = split_axis(node, emit, flat, 1, [1] * rows * rows)
        matrix = [parts[at : at + rows] for at in range(0, rows * rows, rows)]
        return reshape(emit, _expanded(emit, matrix), *lead)
    matrix = reshape(emit, node.inputs[0], count, rows, rows)
    return reshape(emit, _eliminated(node, emit, matrix, rows), *lead)


def _expanded(emit: Emit, matrix: Sequence[Sequence[str]]) -> str:
    """By the minors of the first row."""
    total = ""
    for at, entry in enumerate(matrix[0]):
        minor = [[*row[:at], *row[at + 1 :]] for row in matrix[1:]]
        term = emit("Mul", entry, _expanded(emit, minor)) if minor else entry
        total = emit("Sub" if at % 2 else "Add", total, term) if total else term
    return total


def _eliminated(node: Node, emit: Emit, matrix: str, rows: int) -> str:
    """The product of the pivots, with the sign of their order; `[count, 1, 1]`."""
    product, turns = "", ""
    left: list[str | np.ndarray] = [
        np.ones((1, rows, 1), node.dtype()),
        np.ones((1, 1, rows), node.dtype()),
    ]
    for step in range(rows):
        places = _largest(node, emit, matrix, left, rows)
        marks = [_mark(node, emit, place, axis) for axis, place in enumerate(places)]
        row = reduce(node, emit, "ReduceSum", emit("Mul", matrix, marks[0]), [1])
        column = reduce(node, emit, "ReduceSum", emit("Mul", matrix, marks[1]), [2])
        pivot = reduce(node, emit, "ReduceSum", emit("Mul", row, marks[1]), [2])
        product = emit("Mul", product, pivot) if product else pivot
        if step == rows - 1:
            break
        for axis, place in enumerate(places):
            passed = _passed(node, emit, left[axis], place, axis, rows)
            turns = emit("Add", turns, passed) if turns else passed
        divisor = emit("Where", emit("Equal", pivot, 0.0), 1.0, pivot)
        matrix = emit("Sub", matrix, emit("Mul", column, emit("Div", row, divisor)))
        left = [emit("Sub", free, mark) for free, mark in zip(left, marks, strict=True)]
    pairs = emit("Floor", emit("Div", turns, 2.0))
    odd = emit("Sub", turns, emit("Mul", pairs, 2.0))
    return emit("Mul", product, emit("Sub", 1.0, emit("Mul", odd, 2.0)))


def _along(rows: int, axis: int) -> np.ndarray:
    """The indices of rows or columns."""
    return np.arange(rows).reshape((1, rows, 1) if axis == 0 else (1, 1, rows))


def _largest(
    node: Node, emit: Emit, matrix: str, left: Sequence[str | np.ndarray], rows: int
) -> list[str]:
    """The row and the column of the largest element that is left, each `[count, 1, 1]`."""
    free = emit("Greater", emit("Mul", *left), 0.5)
    sizes = emit("Where", free, emit("Abs", matrix), -1.0)
    count = math.prod(node.shape()[:-2])
    flat = emit("ArgMax", reshape(emit, sizes, count, rows * rows), axis=1, keepdims=1)
    place = reshape(emit, flat, count, 1, 1)
    row = emit("Div", place, rows)
    return [row, emit("Sub", place, emit("Mul", row, rows))]


def _mark(node: Node, emit: Emit, place: str, axis: int) -> str:
    """One at a row or column, zero elsewhere."""
    equal = emit("Equal", _along(node.shape()[-1], axis), place)
    return emit("Where", equal, 1.0, 0.0)


def _passed(
    node: Node, emit: Emit, left: str | np.ndarray, place: str, axis: int, rows: int
) -> str:
    """How many rows or columns that are left lie before a place: neighbours to swap."""
    before = emit("Less", _along(rows, axis), place)
    return reduce(node, emit, "ReduceSum", emit("Where", before, left, 0.0), [axis + 1])


OPERATORS: dict[str, Operator] = {"Det": Operator(condition=_square, expand=_det)}
