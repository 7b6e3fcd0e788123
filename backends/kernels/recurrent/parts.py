"""Parts of the kernels of recurrent layers: products and rows, repeated at every step.

The weights are packed once, in panels as a tile reads them, and then serve all steps. A step is a
product for all samples, and a pass over the row of each sample for what is elementwise.

All of this is emitted into the open block of an IR builder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.common.vectors import ramp, splat
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.panel import ProductSizes, near_rows, split_rows
from odtc.backends.kernels.product.panels import Panels, Read, pack
from odtc.backends.kernels.product.tile import TASKS, Machine, accumulator, multiply
from odtc.backends.kernels.rows.passes import PARALLEL_ELEMENTS

# Below this many multiply-adds a step's product is not worth a second thread.
PARALLEL_PRODUCT = 1 << 17


@dataclass(frozen=True)
class RecurrentLayer:
    """One direction of a recurrent layer.

    Attributes:
        cell: a name of `CELLS`.
        steps: number of steps.
        batch: number of sequences.
        hidden: elements of a state.
        reverse: whether time runs backwards.
        ragged: whether each sequence has a length of its own.
    """

    cell: str
    steps: int
    batch: int
    hidden: int
    reverse: bool = False
    ragged: bool = False

    def buffer(self, name: str, width: int = 1, dtype: str = "float32") -> tirx.Buffer:
        """An argument with so many times the elements of a state for every step and sample."""
        return T.arg(name, T.buffer((self.steps, self.batch, width * self.hidden), dtype))

    def state(self, name: str) -> tirx.Buffer:
        """An argument with a state of every sample."""
        return T.arg(name, T.buffer((self.batch, self.hidden)))

    def walk(self, step: Callable[[ir.Expr], None], *, backwards: bool) -> None:
        """Emits a loop over time, in the order of the layer or against it."""
        # Stored: TVM would write the difference into indices, whose loops then add addresses.
        clock = T.sblock_alloc_buffer((1,), "int32")
        with T.serial(self.steps) as s:
            T.buffer_store(clock, self.steps - 1 - s if self.reverse != backwards else s, [0])
            step(T.Bind(clock[0]))

    def lengths(self) -> tirx.Buffer | None:
        """The argument with the length of each sequence, if there is one."""
        return T.arg("lengths", T.buffer((self.batch,), "int32")) if self.ragged else None


class StepProduct:
    """`result[b, p] = sum over k of left(b, k) * right(k, p)`, each time with the same `right`.

    Args:
        rows: number of `b`.
        depth: number of `k`.
        columns: number of `p`.
        right: `(k, p)` to an element.
        is_dense: whether its neighbours in `p` are neighbours in memory, else those in `k` are.
        machine: the CPU.
    """

    def __init__(
        self, rows: int, depth: int, columns: int, right: Read, is_dense: bool, machine: Machine
    ) -> None:
        self._sizes = ProductSizes(1, rows, depth, columns)
        self._tile = machine.tile(rows, columns)
        self._panels = -(-columns // self._tile.columns)
        self._packed = T.sblock_alloc_buffer((self._panels, depth, self._tile.columns), "float32")
        self._result = T.sblock_alloc_buffer((rows, max(columns, self._tile.columns)), "float32")
        operand = Panels(lambda _, k, p: right(k, p), is_dense)
        with T.parallel(self._panels) as panel:
            at = self._first_column(panel)
            start, target = (index(0), at), (self._packed, panel)
            pack(depth, self._tile, Columns(1, columns), operand, start, target)

    def __getitem__(self, at: tuple[ir.Expr, ir.Expr]) -> ir.Expr:
        """Element `b, p` of the last result, or a vector of them."""
        return tirx.BufferLoad(self._result, list(at))

    def clear(self) -> None:
        """Emits a result of zeros."""
        rows, columns = (int(size) for size in self._result.shape)
        with T.grid(rows, columns) as (b, p):
            T.buffer_store(self._result, tirx.const(0.0, "float32"), [b, p])

    def multiply(self, left: Read, left_pitch: int) -> None:
        """Emits the product.

        Args:
            left: `(b, k)` to an element.
            left_pitch: elements from a row of it to the next.
        """
        rows, tile, packed = self._sizes.rows, self._tile, self._packed
        tiles, splits = split_rows(rows, tile.rows, self._panels, TASKS)
        work = rows * self._sizes.depth * self._sizes.columns
        loop = T.parallel if work >= PARALLEL_PRODUCT else T.serial
        with loop(self._panels * splits) as task:
            panel, split = unflatten(task, (self._panels, splits))
            at = self._first_column(panel)
            results = accumulator(tile)
            with T.serial(tiles) as t:
                # The last tile reaches back over results that are there already.
                b = T.Bind(tirx.min((split * tiles + t) * tile.rows, rows - tile.rows))
                element = near_rows(
                    self._sizes.depth, tile, lambda row, k: left(b + row, k), left_pitch
                )
                multiply(
                    results,
                    tile,
                    [self._sizes.depth],
                    element,
                    lambda v, k: tirx.BufferLoad(packed, [panel, k, tile.span(v)]),
                )
                for row in range(tile.rows):
                    for vector in range(tile.vectors):
                        value = tirx.BufferLoad(results, [index(row), tile.span(vector)])
                        at_row = [b + row, tile.span(vector, at)]
                        T.buffer_store(self._result, value, at_row)

    def _first_column(self, panel: ir.Expr) -> ir.Expr:
        """Where a panel begins; the last one reaches back."""
        last = max(self._sizes.columns - self._tile.columns, 0)
        return T.Bind(tirx.min(panel * self._tile.columns, index(last)))


def each_sample(layer: RecurrentLayer, work: int, body: Callable[[ir.Expr], None]) -> None:
    """Emits a loop over samples, on several threads where `work` elements of each are many."""
    is_large = layer.batch > 1 and layer.batch * work >= PARALLEL_ELEMENTS
    with (T.parallel if is_large else T.serial)(layer.batch) as b:
        body(b)


def each_unit(layer: RecurrentLayer, lanes: int, body: Callable[["Units"], None]) -> None:
    """Emits a loop over the elements of a state, in vectors."""
    full, rest = divmod(layer.hidden, lanes)
    if full:
        with T.serial(full) as vector:
            body(Units(layer.hidden, vector * lanes, lanes))
    if rest:
        body(Units(layer.hidden, index(full * lanes), rest))


@dataclass(frozen=True)
class Units:
    """Neighbours among the elements of a state, that are computed at once.

    Attributes:
        hidden: elements of a state.
        first: the first of them.
        width: how many they are.
    """

    hidden: int
    first: ir.Expr
    width: int

    def at(self, gate: int = 0) -> ir.Expr:
        """Returns their indices where gates lie one after the other."""
        return ramp(self.first + gate * self.hidden, self.width)

    def zero(self) -> ir.Expr:
        """Returns zeros for all of them."""
        return splat(tirx.const(0.0, "float32"), self.width)

    def hold(self, value: ir.Expr) -> ir.Expr:
        """A value that is computed once. It is stored: TVM cannot name what has names inside."""
        buffer = T.sblock_alloc_buffer((self.width,), "float32")
        at = [ramp(index(0), self.width)]
        T.buffer_store(buffer, value, at)
        return tirx.BufferLoad(buffer, at)


def fill(
    layer: RecurrentLayer,
    target: tirx.Buffer,
    value: Callable[[ir.Expr, Units], ir.Expr],
    lanes: int,
) -> None:
    """Emits `target[b, u] = value(b, u)` for a state of every sample."""

    def sample(b: ir.Expr) -> None:
        each_unit(layer, lanes, lambda u: T.buffer_store(target, value(b, u), [b, u.at()]))

    each_sample(layer, layer.hidden, sample)


# What a step does with some elements of a sample.
Body = Callable[[ir.Expr, Units], None]
Step = Callable[[ir.Expr], None]


@dataclass(frozen=True)
class LayerKernel:
    """The parts that all kernels of a layer have.

    Attributes:
        layer: the layer.
        machine: the CPU.
        weights: recurrent weights, [gates * hidden, hidden].
        lengths: of the sequences, or None.
    """

    layer: RecurrentLayer
    machine: Machine
    weights: tirx.Buffer
    lengths: tirx.Buffer | None

    def each(self, t: ir.Expr, work: int, body: Body, otherwise: Body | None = None) -> None:
        """Emits a body for the samples that have step t, and maybe another for those that do not.

        Args:
            t: the step.
            work: how many times a state's elements each sample takes.
            body: is given the sample and some elements.
            otherwise: as `body`.
        """

        def sample(b: ir.Expr) -> None:
            if self.lengths is None:
                self.units(b, body)
                return
            with T.If(t < self.lengths[b]):
                with T.Then():
                    self.units(b, body)
                if otherwise is not None:
                    with T.Else():
                        self.units(b, otherwise)

        each_sample(self.layer, work * self.layer.hidden, sample)

    def units(self, b: ir.Expr, body: Body) -> None:
        """Emits a body for all elements of a sample."""
        each_unit(self.layer, self.machine.lanes, lambda u: body(b, u))
