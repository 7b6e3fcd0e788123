"""Where the elements of a tensor lie, reading them, and asking for them ahead."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

# Bytes that a cache moves at once.
CACHE_LINE = 64


def index(value: ir.Expr | int) -> ir.Expr:
    """A constant index as an expression."""
    return tirx.const(value, "int32") if isinstance(value, int) else value


def unflatten(flat: ir.Expr, sizes: Sequence[int]) -> list[ir.Expr]:
    """Indices of an element, outermost first, from its position among all of them."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]

    def at(axis: int) -> ir.Expr:
        if sizes[axis] == 1:
            return index(0)
        inner = flat if axis == 0 else flat % strides[axis - 1]
        return inner if strides[axis] == 1 else inner // strides[axis]

    return [at(axis) for axis in range(len(sizes))]


def flatten(at: Sequence[ir.Expr], sizes: Sequence[int]) -> ir.Expr:
    """Position of an element among all of them, from its indices, outermost first."""
    flat = index(0)
    for place, size in zip(at, sizes, strict=True):
        flat = flat * size + place
    return flat


def pieces(total: int, size: int) -> list[tuple[int, int, int]]:
    """First element, number and size of the pieces that cover so many, each once."""
    whole, rest = divmod(total, size)
    found = [(0, whole, size)] if whole else []
    return [*found, (whole * size, 1, rest)] if rest else found


def divisors(number: int) -> list[int]:
    """Returns all divisors of a number in rising order."""
    return [n for n in range(1, number + 1) if number % n == 0]


class Readable(Protocol):
    """A tensor of a kernel: its buffer, or something that computes elements of it."""

    @property
    def shape(self) -> Sequence[Any]:
        """Sizes of its dimensions."""
        ...

    def __getitem__(self, at: Any, /) -> ir.Expr: ...


def load(tensor: Readable, at: Sequence[ir.Expr]) -> ir.Expr:
    """An element, or a vector of them, as float32, whatever it is stored in."""
    return rounded(tensor[tuple(at)], "float32")


def prefetch(element: ir.Expr) -> None:
    """Emits a hint that the cache line of an element will be read soon.

    A product reads rows of a tile far apart from each other, which no hardware foresees.
    """
    read, near, data = (tirx.const(value, "int32") for value in (0, 3, 1))
    T.evaluate(
        tirx.call_llvm_intrin("void", "llvm.prefetch", tirx.address_of(element), read, near, data)
    )


def foresee(value: ir.Expr) -> None:
    """Emits such hints for the elements that a value is made of."""
    read: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, read.append))
    for element in read:
        prefetch(element)


def rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """An element, or a vector of them, in another dtype."""
    lanes = value.ty.dtype.lanes
    return value.astype(dtype if lanes == 1 else f"{dtype}x{lanes}")


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    return np.dtype(dtype).itemsize
