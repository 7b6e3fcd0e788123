"""Sizes of an attention, and the layout of its tensors."""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, load
from odtc.backends.kernels.common.vectors import each_block, ramp, splat
from odtc.backends.kernels.product.panel import collides


@dataclass(frozen=True)
class Heads:
    """Sizes and layout of an attention.

    Attributes:
        batch: number of samples.
        heads: number of heads.
        queries: steps of the queries and of the result.
        keys: steps of the keys and values.
        width: elements of a query and of a key.
        depth: elements of a value.
        inner: of queries, keys, values and the result, whether heads lie inside of the steps, as
            `[batch, steps, heads, elements]`, else `[batch, heads, steps, elements]`.
        mask: shape of what is added to the scores `[batch, heads, queries, keys]`, or nothing;
            sizes of one are broadcast.
        scale: of the products of queries and keys.
        replaces: whether an element of the mask that is not zero stands in place of the score.
        safe: whether a query whose keys are all masked gives zeros, not NaN.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    depth: int
    inner: tuple[bool, bool, bool, bool]
    mask: tuple[int, ...]
    scale: float
    replaces: bool
    safe: bool

    def argument(
        self, name: str, steps: int, size: int, inner: bool, dtype: str = "float32"
    ) -> "HeadTensor":
        """An argument of a kernel, with elements for each step of each head."""
        middle = (steps, self.heads) if inner else (self.heads, steps)
        return HeadTensor(T.arg(name, T.buffer((self.batch, *middle, size), dtype)), inner)

    def of_queries(self, name: str) -> tirx.Buffer:
        """An argument of a kernel with a number for each query."""
        return T.arg(name, T.buffer((self.batch, self.heads, self.queries)))


@dataclass(frozen=True)
class HeadTensor:
    """A tensor in memory.

    Attributes:
        buffer: it.
        inner: whether heads lie inside of the steps.
    """

    buffer: tirx.Buffer
    inner: bool

    @property
    def pitch(self) -> int:
        """Elements from a step to the next."""
        *_, heads, width = (int(size) for size in self.buffer.shape)
        return heads * width if self.inner else width

    def of(self, b: ir.Expr, h: ir.Expr) -> "Matrix":
        """The matrix of a head."""
        return Matrix(self, b, h)


@dataclass(frozen=True)
class Matrix:
    """The matrix of a head, `[steps, elements]`, in a tensor.

    Attributes:
        argument: the tensor.
        b: the sample.
        h: the head.
    """

    argument: HeadTensor
    b: ir.Expr
    h: ir.Expr

    def place(self, step: ir.Expr, at: ir.Expr) -> list[ir.Expr]:
        """Index of an element, or of some that lie side by side."""
        middle = [step, self.h] if self.argument.inner else [self.h, step]
        return [self.b, *middle, at]

    def read(self, step: ir.Expr, at: ir.Expr) -> ir.Expr:
        """Loads an element as float32."""
        return load(self.argument.buffer, self.place(step, at))

    def near(
        self, start: ir.Expr | int, steps: ir.Expr | int, most: int, lanes: int
    ) -> Callable[[ir.Expr, ir.Expr], ir.Expr]:
        """Reads some steps, counted from `start`, in whole vectors.

        Emits their copy where they are not float32, where vectors do not cover a step, or where
        steps would push each other out of a cache. The copy has zeros after each step.

        Args:
            start: the first step.
            steps: how many there are.
            most: how many there may be.
            lanes: elements of a vector.
        """
        argument = self.argument
        width = int(argument.buffer.shape[3])
        is_float = str(argument.buffer.dtype) == "float32"
        if is_float and width % lanes == 0 and not collides(argument.pitch):
            return lambda step, at: self.read(start + step, at)
        padded = -(-width // lanes) * lanes
        copy = T.sblock_alloc_buffer((most, padded), "float32")
        with T.serial(steps) as step:
            if padded > width:
                T.buffer_store(copy, zeros(lanes), [step, ramp(padded - lanes, lanes)])

            def block(at: ir.Expr | int, size: int) -> None:
                span = ramp(index(at), size)
                T.buffer_store(copy, self.read(start + step, span), [step, span])

            each_block(width, lanes, block)
        return lambda step, at: tirx.BufferLoad(copy, [index(step), at])

    def store(
        self, start: ir.Expr | int, steps: ir.Expr | int, source: tirx.Buffer, lanes: int
    ) -> None:
        """Emits the copy of rows to some steps.

        Args:
            start: the first step.
            steps: how many there are.
            source: a row for each of them, at least.
            lanes: elements of a vector.
        """
        with T.serial(steps) as step:

            def block(at: ir.Expr | int, size: int) -> None:
                span = ramp(index(at), size)
                place = self.place(start + step, span)
                T.buffer_store(self.argument.buffer, source[step, span], place)

            each_block(int(self.argument.buffer.shape[3]), lanes, block)


def zeros(lanes: int) -> ir.Expr:
    """A vector of zeros."""
    return splat(tirx.const(0.0, "float32"), lanes)


def fill_rows(buffer: tirx.Buffer, lanes: int) -> None:
    """Emits zeros for a matrix whose rows are whole vectors."""
    rows, width = (int(size) for size in buffer.shape)
    with T.grid(rows, width // lanes) as (row, v):
        T.buffer_store(buffer, zeros(lanes), [row, ramp(v * lanes, lanes)])


def shifted(at: ir.Expr, offset: ir.Expr) -> ir.Expr:
    """An index, or those of a vector, counted from an offset."""
    if isinstance(at, tirx.Ramp):
        return tirx.Ramp(at.base + offset, at.stride, at.lanes)
    return at + offset
