"""Layer and root-mean-square normalisation on a GPU: teams of a group have rows side by side.

A team holds its row in registers, so each tensor is read once. The gradient of the scale and of the
shift is a sum over rows: an item keeps those of its columns over all rows of its group, teams add
theirs up, and a launch of its own the sums of groups.

    rows of a group ─some at a time, a team for each→ dx; sums of an item ─halves→ sums of the group
    sums of groups ─add_parts→ dgamma, dbeta

Rows too long for registers are left to `backends/kernels/norm/layer_norm.py`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.column_sums import add_parts
from odtc.backends.gpu.rows.teams import (
    Held,
    arrays_of,
    combined,
    fold,
    lanes_of,
    launch,
    put,
    total_of,
    where,
    width_of,
)
from odtc.backends.kernels.common.vectors import splat, vector_type
from odtc.backends.kernels.norm.layer_norm import (
    Shape,
    layer_norm_gradient,
    layer_norm_kernel,
    layer_norm_rules,
)
from odtc.backends.kernels.norm.moments import inverse_root
from odtc.backends.kernels.rows.passes import Team, row_kernel

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

# Of four tensors an item of the gradient holds its part of a row.
_TENSORS = 4


def gpu_layer_norm_rules(gpu: Gpu) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return layer_norm_rules(
        Team(gpu.group, gpu.groups), partial(_forward, gpu=gpu), partial(_gradient, gpu=gpu)
    )


@dataclass(frozen=True)
class Rows:
    """How groups of items have rows.

    Attributes:
        count: of rows.
        size: elements of each.
        width: elements of a vector.
        group: items of a group.
        team: of those that have a row.
        held: vectors of a row that an item holds.
    """

    count: int
    size: int
    width: int
    group: int
    team: int
    held: int

    @property
    def at_once(self) -> int:
        """Rows of a group at a time."""
        return self.group // self.team

    def row(self, item: ir.Expr) -> Held:
        """A row as an item of the group has it."""
        lane = item % self.team if self.team < self.group else item
        return Held(1, self.size, self.width, self.team, lane, 0, self.held)


def rows_of(shape: Shape, width: int, gpu: Gpu) -> Rows | None:
    """The smallest teams whose items hold a row; None where it is too long.

    Args:
        shape: rows and elements of a row.
        width: elements of a vector.
        gpu: the machine.
    """
    (count, size), most = shape, gpu.accumulators // _TENSORS // width
    team = 1
    while team < gpu.group and -(-size // (width * team)) > most:
        team *= 2
    held = -(-size // (width * team))
    return Rows(count, size, width, gpu.group, team, held) if held <= most else None


def _forward(
    shape: Shape, epsilon: float, team: Team, dtype: str = "float32", *, centred: bool, gpu: Gpu
) -> tirx.PrimFunc:
    rows = rows_of(shape, width_of(shape[1], dtype), gpu)
    if rows is None:
        return layer_norm_kernel(shape, epsilon, team, dtype, centred=centred)
    return held_layer_norm(rows, epsilon, dtype, centred=centred)


def held_layer_norm(rows: Rows, epsilon: float, dtype: str, *, centred: bool) -> tirx.PrimFunc:
    """A kernel as `layer_norm_kernel`.

    Args:
        rows: and how groups have them.
        epsilon: added to the variance.
        dtype: of all tensors.
        centred: whether the mean is taken off, and a shift added.
    """
    count, size = rows.count, rows.size
    with row_kernel("layer_norm") as made:
        x = T.arg("x", T.buffer((count, size), dtype))
        gamma, *beta = (
            T.arg(name, T.buffer((size,), dtype)) for name in ("gamma", "beta")[: 1 + centred]
        )
        y = T.arg("y", T.buffer((count, size), dtype))
        with launch(-(-count // rows.at_once), rows.group) as (group, item):
            at, is_there = _row(
                rows, group * rows.at_once, item, -(-count // rows.at_once) * rows.at_once
            )
            held = rows.row(item)
            values = held.read(lambda _, i: x[at, i])
            factors = held.read(lambda _, i: gamma[i])
            shifts = [held.read(lambda _, i, of=each: of[i]) for each in beta]
            far, scale, _ = _normal(rows, held, item, values, epsilon, [], centred)

            def store(slot: int, _: ir.Expr, i: ir.Expr) -> None:
                normal = far[slot] * splat(scale, rows.width) * factors[slot]
                T.buffer_store(y, sum((each[slot] for each in shifts), normal), [at, i])

            _guarded(is_there, lambda: held.write(store))
    return made()


def _gradient(
    shape: Shape,
    epsilon: float,
    stored_dtype: str,
    team: Team,
    dtype: str = "float32",
    *,
    centred: bool,
    gpu: Gpu,
) -> tirx.PrimFunc:
    rows = rows_of(shape, width_of(shape[1], dtype, stored_dtype), gpu)
    if rows is None:
        return layer_norm_gradient(shape, epsilon, stored_dtype, team, dtype, centred=centred)
    return held_layer_norm_gradient(rows, epsilon, (stored_dtype, dtype), team, centred=centred)


def held_layer_norm_gradient(
    rows: Rows, epsilon: float, dtypes: tuple[str, str], team: Team, *, centred: bool
) -> tirx.PrimFunc:
    """A kernel as `layer_norm_gradient`.

    Args:
        rows: and how groups have them.
        epsilon: added to the variance.
        dtypes: of `x`, and of all other tensors.
        team: items of a group, and groups to have.
        centred: whether the mean is taken off, and a shift added.
    """
    (stored_dtype, dtype), count, size, width = dtypes, rows.count, rows.size, rows.width
    turns = -(-count // (rows.at_once * team.groups))
    parts, sums = -(-count // (rows.at_once * turns)), 1 + centred
    with row_kernel("layer_norm_gradient") as made:
        dy = T.arg("dy", T.buffer((count, size), dtype))
        x = T.arg("x", T.buffer((count, size), stored_dtype))
        gamma = T.arg("gamma", T.buffer((size,), dtype))
        dx = T.arg("dx", T.buffer((count, size), dtype))
        totals = [T.arg(name, T.buffer((size,), dtype)) for name in ("dgamma", "dbeta")[:sums]]
        partial_sums = T.sblock_alloc_buffer((sums, parts, size), dtype)
        with launch(parts, rows.group) as (group, item):
            held = rows.row(item)
            own = [
                T.sblock_alloc_buffer((held.count,), vector_type(dtype, width), scope="local")
                for _ in range(sums)
            ]
            zero = splat(tirx.const(0.0, dtype), width)
            for each, slot in itertools.product(own, held.slots):
                T.buffer_store(each, zero, [slot])

            def backward(turn: ir.Expr | int) -> None:
                first = (group * turns + turn) * rows.at_once
                at, is_there = _row(rows, first, item, parts * turns * rows.at_once)
                values = held.read(lambda _, i: _cast(x[at, i], dtype))
                adjoints = held.read(lambda _, i: dy[at, i])
                if is_there is not None:
                    adjoints = [where(is_there, each) for each in adjoints]
                weights = held.read(lambda _, i: gamma[i])
                weighted = [T.bind(a * b) for a, b in zip(adjoints, weights, strict=True)]
                normals, results = _slopes(rows, held, item, values, weighted, epsilon, centred)
                for slot, normal in enumerate(normals):
                    terms = [adjoints[slot] * normal, adjoints[slot]]
                    for each, term in zip(own, terms, strict=False):
                        T.buffer_store(each, each[slot] + term, [slot])

                def store(slot: int, _: ir.Expr, i: ir.Expr) -> None:
                    T.buffer_store(dx, results[slot], [at, i])

                _guarded(is_there, lambda: held.write(store))

            with T.serial(turns) as turn:
                backward(turn)

            def write(number: int, i: ir.Expr, value: ir.Expr) -> None:
                T.buffer_store(partial_sums, value, [number, group, i])

            _add_teams(rows, held, own, item, write)
        add_parts(partial_sums, totals, team)
    return made()


def _row(rows: Rows, first: ir.Expr, item: ir.Expr, covered: int) -> tuple[ir.Expr, ir.Expr | None]:
    """The row of an item's team, and whether there is one, if not always, of so many covered."""
    at = first + item // rows.team if rows.team < rows.group else first
    if covered == rows.count:
        return at, None
    return tirx.min(at, rows.count - 1), at < rows.count


def _guarded(is_there: ir.Expr | None, write: Callable[[], None]) -> None:
    if is_there is None:
        write()
        return
    with T.If(is_there), T.Then():
        write()


def _cast(value: ir.Expr, dtype: str) -> ir.Expr:
    """A value of a row; only those that are stored narrower are read one by one."""
    return value if value.ty.dtype.lanes > 1 else value.astype(dtype)


def _normal(
    rows: Rows,
    held: Held,
    item: ir.Expr,
    values: Sequence[ir.Expr],
    epsilon: float,
    weighted: Sequence[ir.Expr],
    centred: bool,
) -> tuple[Sequence[ir.Expr], ir.Expr, list[ir.Expr]]:
    """Emits the statistics of a row.

    Returns:
        The distances from the mean, or from zero where not `centred`; what makes normals of them;
        and the sums of the weighted values times them, and, if `centred`, of these values.
    """
    dtype = str(values[0].ty.dtype).partition("x")[0]
    size = tirx.const(float(rows.size), dtype)
    far = values
    if centred:
        (total,) = combined([total_of(values)], item, rows.group, rows.team)
        mean = splat(T.bind(total / size), rows.width)
        far = held.masked([T.bind(each - mean) for each in values])
    terms = [[each * each for each in far]]
    if weighted:
        terms.append([a * b for a, b in zip(weighted, far, strict=True)])
        terms += [weighted] if centred else []
    found = combined([total_of(each) for each in terms], item, rows.group, rows.team)
    squares, *others = found
    return far, inverse_root(T.bind(squares / size), epsilon, dtype), others


def _slopes(
    rows: Rows,
    held: Held,
    item: ir.Expr,
    values: Sequence[ir.Expr],
    weighted: Sequence[ir.Expr],
    epsilon: float,
    centred: bool,
) -> tuple[list[ir.Expr], list[ir.Expr]]:
    """Emits the normals of a row's values, and the gradient of these.

    Args:
        rows: and how groups have them.
        held: the row of the item.
        item: its number in the group.
        values: of the row.
        weighted: the gradient of the normals.
        epsilon: added to the variance.
        centred: whether the mean is taken off.
    """
    far, scale, (along, *total) = _normal(rows, held, item, values, epsilon, weighted, centred)
    share = tirx.const(1 / rows.size, str(scale.ty.dtype))
    slope, factor = (
        splat(each, rows.width) for each in (T.bind(along * scale * scale * share), scale)
    )
    rest = list(weighted)
    if total:
        level = splat(T.bind(total[0] * share), rows.width)
        rest = [each - level for each in weighted]
    results = [
        T.bind((each - distance * slope) * factor) for each, distance in zip(rest, far, strict=True)
    ]
    return [T.bind(distance * factor) for distance in far], results


def _add_teams(
    rows: Rows,
    held: Held,
    own: Sequence[tirx.Buffer],
    item: ir.Expr,
    write: Callable[[int, ir.Expr, ir.Expr], None],
) -> None:
    """Emits what the teams of a group have together in their items' registers.

    Args:
        rows: and how groups have them.
        held: of the item's row.
        own: vectors of an item, of several sums.
        item: its number in the group.
        write: emits the store of a sum's number, a column and a value.
    """
    shared: list[tirx.Buffer] = []
    for slot in held.slots:
        values = [lane for each in own for lane in lanes_of(T.bind(each[slot]))]
        if rows.at_once > 1:
            shared = shared or arrays_of(values, rows.group)
            put(shared, values, item)
            fold(shared, item, item // rows.team, rows.at_once, rows.team)
            values = [each[item] for each in shared]

        def store(_: int, __: ir.Expr, i: ir.Expr, values: Sequence[ir.Expr] = values) -> None:
            for number, value in enumerate(values):
                sum_, lane = divmod(number, rows.width)
                write(sum_, i.base + lane if rows.width > 1 else i, value)

        first = None if rows.at_once == 1 else item < rows.team
        _guarded(first, partial(held.put, slot, store))
