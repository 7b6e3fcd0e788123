"""Sums over the rows of a matrix on a GPU, as gradients of biases are.

    rows of a part ─a group for some columns: its items share the rows→ sums of the part
    sums of all parts ─the same→ result

Items side by side read columns side by side, several rows before they add any. There are as many
parts as keep the GPU busy, whatever divides the number of rows; every sum has a fixed order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.channel_sums import channel_sums
from odtc.backends.gpu.rows.teams import (
    added,
    fold,
    lanes_of,
    launch,
    shared_of,
    where,
    width_of,
)
from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type
from odtc.backends.kernels.rows.passes import Team, row_kernel

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

COLLAPSE = "relax.collapse_sum_to"
# Vectors of columns that a group has, at most: a sector of memory or some, for each row.
_COLUMNS = 8
# Rows that an item reads before it adds them, and at least, where a sum is taken in parts.
_AT_ONCE, _LEAST = 8, 4
# Groups for each one that keeps the GPU busy: an item waits for what it reads.
_MORE_GROUPS = 4
# Rows that are worth a group, at least.
_ROWS = 8


@dataclass(frozen=True)
class Matrices:
    """Matrices whose rows are added up.

    Attributes:
        count: of matrices.
        rows: of each.
        columns: of each.
    """

    count: int
    rows: int
    columns: int


def sum_rules(gpu: Gpu) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    team = Team(gpu.group, gpu.groups)

    def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data, *_), shape, out = call.args, shape_of(call.args[0]), shape_of(call)
        rows = _collapsed(shape, out)
        if {str(data.ty.dtype), str(call.ty.dtype)} != {"float32"}:
            return call.op.get_attr("FLegalize")(builder, call)
        if rows < _ROWS:
            found = channel_sums(builder, call, gpu)
            return call.op.get_attr("FLegalize")(builder, call) if found is None else found
        kernel = column_sum_kernel(rows, math.prod(out), team)
        matrix = builder.emit(relax.op.reshape(data, (rows, math.prod(out))))
        name = builder.add_func(kernel, "collapse_sum")
        found = relax.call_tir(
            name, relax.Tuple([matrix]), relax.TensorType((math.prod(out),), "float32")
        )
        return relax.op.reshape(builder.emit(found), out)

    return {COLLAPSE: lower}


def column_sum_kernel(rows: int, columns: int, team: Team) -> tirx.PrimFunc:
    """A kernel `(x [rows, columns], y [columns])`, float32.

    Args:
        rows: that are added up.
        columns: of the result.
        team: items of a group, and groups to have.
    """
    with row_kernel("collapse_sum") as made:
        x = T.arg("x", T.buffer((rows, columns)))
        y = T.arg("y", T.buffer((columns,)))
        extent, width = Matrices(1, rows, columns), width_of(columns, "float32")
        parts = _parts(extent, width, team)
        if parts == 1:
            add_rows(extent, width, team, lambda _, r, c: x[r, c], lambda _, c, v: _put(y, v, [c]))
        else:
            partial = T.sblock_alloc_buffer((parts, columns), "float32")
            _emit(
                extent,
                width,
                team,
                parts,
                lambda _, r, c: x[r, c],
                lambda _, part, c, value: _put(partial, value, [part, c]),
            )
            add_parts(partial, [y], team)
    return made()


def add_parts(partial: tirx.Buffer, totals: Sequence[tirx.Buffer], team: Team) -> None:
    """Emits sums over the rows of matrices: of `[matrix, row, column]`, or of one.

    Args:
        partial: the matrices.
        totals: the sum of each, by column.
        team: items of a group.
    """
    *_, rows, columns = (int(each) for each in partial.shape)
    is_one = len(partial.shape) == 2

    def read(matrix: ir.Expr, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        return partial[row, column] if is_one else partial[matrix, row, column]

    def write(matrix: ir.Expr, column: ir.Expr, value: ir.Expr) -> None:
        if len(totals) == 1:
            _put(totals[0], value, [column])
            return
        for number, total in enumerate(totals):
            with T.If(tirx.EQ(matrix, number)), T.Then():
                _put(total, value, [column])

    add_rows(Matrices(len(totals), rows, columns), 1, team, read, write)


# From matrix, row and column to an element, or neighbours along the columns.
Read = Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]


def add_rows(
    extent: Matrices,
    width: int,
    team: Team,
    read: Read,
    write: Callable[[ir.Expr, ir.Expr, ir.Expr], None],
) -> None:
    """Emits a launch that adds up the rows of matrices.

    Args:
        extent: of the matrices.
        width: columns that are read at once.
        team: items of a group.
        read: an element.
        write: emits the store of a sum, of a matrix and a column.
    """
    _emit(
        extent, width, team, 1, read, lambda matrix, _, column, value: write(matrix, column, value)
    )


def _emit(
    extent: Matrices,
    width: int,
    team: Team,
    parts: int,
    read: Read,
    write: Callable[[ir.Expr, ir.Expr, ir.Expr, ir.Expr], None],
) -> None:
    """The same of parts of the rows, whose number `write` is given after that of the matrix."""
    vectors = extent.columns // width
    across = _across(vectors, team)
    tiles, down = -(-vectors // across), team.items // across
    steps = -(-extent.rows // (parts * down))
    with launch(extent.count * parts * tiles, team.items) as (group, item):
        matrix, part, tile = group // (parts * tiles), group // tiles % parts, group % tiles
        vector, row = tile * across + item % across, item // across
        column = _within(vector, vectors, tiles * across)
        place = ramp(column * width if width > 1 else column, width)
        own = T.sblock_alloc_buffer((1,), vector_type("float32", width), scope="local")
        T.buffer_store(own, splat(tirx.const(0.0, "float32"), width), [0])

        def take(first: ir.Expr | int, count: int) -> None:
            at = [part * (steps * down) + (first + step) * down + row for step in range(count)]
            is_whole = parts * steps * down == extent.rows
            found = [
                T.bind(read(matrix, each if is_whole else tirx.min(each, extent.rows - 1), place))
                for each in at
            ]
            if not is_whole:
                found = [
                    where(each < extent.rows, value) for each, value in zip(at, found, strict=True)
                ]
            T.buffer_store(own, own[0] + added(found), [0])

        turns, rest = divmod(steps, _AT_ONCE)
        if turns == 1:
            take(0, _AT_ONCE)
        elif turns:
            with T.serial(turns) as turn:
                take(turn * _AT_ONCE, _AT_ONCE)
        if rest:
            take(turns * _AT_ONCE, rest)
        total = T.bind(own[0])
        shared = shared_of([T.bind(each) for each in lanes_of(total)], item, team.items)
        fold(shared, item, row, down, across)
        is_first = row < 1
        if tiles * across > vectors:
            is_first = tirx.all(is_first, vector < vectors)
        with T.If(is_first), T.Then():
            for lane, each in enumerate(shared):
                write(matrix, part, place.base + lane if width > 1 else place, each[item])


def _across(vectors: int, team: Team) -> int:
    """Vectors of columns side by side that a group has, a power of two."""
    return min(_COLUMNS, team.items, 1 << (vectors - 1).bit_length())


def _within(vector: ir.Expr, count: int, most: int) -> ir.Expr:
    return vector if most == count else tirx.min(vector, count - 1)


def _parts(extent: Matrices, width: int, team: Team) -> int:
    """How many parts the rows are cut into."""
    vectors = extent.columns // width
    across = _across(vectors, team)
    tiles, down = -(-vectors // across), team.items // across
    most = min(team.groups * _MORE_GROUPS // tiles, extent.rows // (down * _LEAST))
    if most < 2:
        return 1
    steps = -(-extent.rows // (most * down))
    return -(-extent.rows // (steps * down))


def _put(buffer: tirx.Buffer, value: ir.Expr, at: Sequence[ir.Expr]) -> None:
    T.buffer_store(buffer, value, list(at))


def _collapsed(shape: Sequence[int], out: Sequence[int]) -> int:
    """Rows that are added up, if these are all there is before the result's axes; otherwise 0."""
    aligned = [1] * (len(shape) - len(out)) + list(out)
    kept = next((axis for axis, size in enumerate(aligned) if size > 1), len(shape))
    return math.prod(shape[:kept]) if aligned[kept:] == list(shape[kept:]) else 0
