"""Depthwise convolutions and their two gradients, plane by plane.

Each channel is convolved by itself, so there is no sum over channels, and little more to compute
than to read and write. A plane is staged some rows at a time (`bands.py`); results are computed a
few rows at once, as these share most of what they read, and stored after what is fused with them.
A channel `c` may have several filters; its outputs `o` follow each other.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import Readable, index, load
from odtc.backends.kernels.common.vectors import (
    Index,
    interleave,
    ramp,
    splat,
    widest,
)
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.grouped.taps import Staged, Tapped, each_tapped
from odtc.backends.kernels.pool.bands import (
    Band,
    decided,
    each_band,
    only,
    planes_each,
    stage,
    usual_band,
)
from odtc.backends.kernels.pool.planes import Read, Tap, Window, fill, pair
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.tile import Machine

# Sums of one pass over a plane: they stay in vector registers, of which some CPUs have 16.
_SUMS = 12
# Rows of results that may be computed at once.
_ROWS = (1, 2, 4)
# Numbers of an axis in the mark of a product.
_NUMBERS = 6


def _forward(product: Product, machine: Machine) -> None:
    """Emits `y[n, o, p] = sum over i of w[o, i] * x[n, c, p * stride + i * dilation - pad]`."""
    (x, w), window = product.operands, _window(product.numbers)
    (batch, channels, *_), lanes, taps = _sizes(x), machine.lanes, window.taps()
    filters = _sizes(w)[0] // channels
    band = _band_of_image(window, machine)
    at_once = _rows_at_once(window.out[1], machine, _shared_rows(window, machine))
    is_once = _is_once(window.out[1], machine)
    once = [(tap.phase, tap) for tap in taps] if is_once else []
    each = planes_each(batch * channels, machine)
    with T.parallel(batch * channels // each) as task:
        staged = _zeros(*band.shape, machine)
        with T.serial(each) as number:
            n, c = _divided(task * each + number, channels)

            def from_band(first: Index, _: Index) -> None:
                stage(staged, band, first, lanes, _reader(x, n, c))
                with T.serial(filters) as filter_:
                    o = c * filters + filter_

                    def rows(row: Index, count: int) -> None:
                        def block(tapped: Tapped, column: Index, width: int, _: int) -> None:
                            def term(_: Index, tap: Tap, k: int) -> ir.Expr:
                                return _weight(w, o, tap, width) * tapped(tap.phase, tap, k)

                            wanted = [(taps, k) for k in range(count)]
                            for k, value in enumerate(_sums(1, term, wanted, width)):
                                _store(product, [n, o, first + row + k, column], value, width)

                        across = window.out[1], lanes
                        each_tapped(Staged(staged, band), row, count, across, once, block)

                    _each_row(band, at_once, rows)

            each_band(band, from_band)


def _data_gradient(product: Product, machine: Machine) -> None:
    """Emits `dx[n, c, q] = sum over o, i of w[o, i] * dy[n, o, (q + pad - i * dilation) / stride]`.

    Only where the division has no rest: each phase of the image has taps of its own.
    """
    (dy, w), window = product.operands, _window(product.numbers)
    (batch, channels, *_), lanes = _sizes(product.result), machine.lanes
    filters, taps = _sizes(w)[0] // channels, [_back(tap) for tap in window.taps()]
    (height, columns), (down, right) = window.image, window.stride
    shifts = [tap.shift for tap in taps]
    multiple = _multiple(machine)
    usual = usual_band(window.out, (1, 1), window.phase_size, shifts, filters, multiple)
    band = decided(usual, machine)
    # Of narrower rows all vectors are unrolled, and do not fit in registers.
    is_once = _is_once(columns // right // 2, machine)
    shared = 4 if _overlap(window, machine) and (is_once or not machine.blocked) else 2
    at_once = _rows_at_once(columns // right, machine, shared)
    each, has_once = planes_each(batch * channels, machine), is_once and filters == 1
    with T.parallel(batch * channels // each) as task:
        staged = _zeros(filters, band.shape[1], machine)
        with T.serial(each) as number:
            n, c = _divided(task * each + number, channels)

            def rows(first: Index, phase: int, row: Index, count: int) -> None:
                """Emits rows of the image that are `phase` beyond a multiple of the stride."""
                is_full = height % down == 0 or phase < height % down

                groups = [_of_phase(taps, phase * right + way) for way in range(right)]
                once = [(0, tap) for own in groups for tap in own] if has_once else []

                def block(tapped: Tapped, at: Index, width: int, ways: int = right) -> None:
                    def term(filter_: Index, tap: Tap, k: int) -> ir.Expr:
                        return _weight(w, c * filters + filter_, tap, width) * tapped(
                            filter_, tap, k
                        )

                    wanted = [(own, k) for k in range(count) for own in groups[:ways]]
                    values = _sums(filters, term, wanted, width)
                    for k in range(count):
                        line = (first + row + k) * down + phase
                        whole = interleave(values[k * ways : (k + 1) * ways], width)
                        with only(line < height, always=is_full):
                            _store(product, [n, c, line, at * right], whole, ways * width)

                across = columns // right, lanes
                bands = Staged(staged, band)
                each_tapped(bands, row, count, across, once, lambda *at: block(*at[:3]))
                if columns % right:
                    tapped = bands.tapped(row, columns // right, 1)
                    block(tapped, columns // right, 1, columns % right)

            def from_band(first: Index, _: Index) -> None:
                for filter_ in range(filters):
                    read = _reader(dy, n, c * filters + filter_)
                    stage(staged, band, first, lanes, read, line=filter_)
                for phase in range(min(down, height)):
                    _each_row(band, at_once, partial(rows, first, phase))

            each_band(band, from_band)


def _weight_gradient(product: Product, machine: Machine) -> None:
    """Emits `dw[o, i] = sum over n, p of dy[n, o, p] * x[n, c, p * stride + i * dilation - pad]`.

    Each position's sum is a vector until all samples are added up.
    """
    (x, dy), window = product.operands, _window(product.numbers)
    (batch, channels, *_), taps = _sizes(x), window.taps()
    outputs = _sizes(dy)[1]
    band = _band_of_image(window, machine)
    each, lanes = planes_each(outputs, machine), widest(window.out[1], machine.lanes)
    pairs = _overlap(window, machine) and band.rows > 1
    with T.parallel(outputs // each) as task:
        staged = _zeros(*band.shape, machine)
        sums = T.sblock_alloc_buffer((len(taps), lanes), "float32")
        with T.serial(each) as number:
            o = T.bind(task * each + number)
            fill(sums, tirx.const(0.0, "float32"), lanes)
            with T.serial(batch) as n:

                def from_band(first: Index, known: Index) -> None:
                    read, slope = _reader(x, n, o // (outputs // channels)), _reader(dy, n, o)
                    stage(staged, band, first, machine.lanes, read)
                    for start in range(0, len(taps), _SUMS):
                        group = list(enumerate(taps))[start : start + _SUMS]
                        bands, rows = Staged(staged, band), partial(_from, first, slope)
                        add = partial(_add, sums, group, bands, rows, machine)
                        _each_new_row(band, known, pairs, add)

                each_band(band, from_band)
            for slot, tap in enumerate(taps):
                parts = [sums[slot, lane] for lane in range(lanes)]
                product.store([o, 0, *tap.at], _pairwise(parts))


@dataclass(frozen=True)
class _Rows:
    """Rows of a band: `count` times `at_once`, which share most of what they read."""

    first: Index
    count: Index
    at_once: int

    def at(self, step: Index) -> list[Index]:
        """Those that are added together."""
        return [self.first + step * self.at_once + k for k in range(self.at_once)]


def _each_new_row(band: Band, known: Index, pairs: bool, add: Callable[["_Rows"], None]) -> None:
    """Emits `add` for the rows of a band that are not in the sums.

    Args:
        band: with rows of results.
        known: of them, those that are in the sums.
        pairs: whether two rows are added at once; one of an odd number is added first.
        add: emits what some rows add.
    """
    if not pairs:
        add(_Rows(known, band.rows - known, 1))
        return
    odd = (band.rows - known) % 2
    if not isinstance(known, int) or odd:
        add(_Rows(known, odd, 1))
    add(_Rows(known + odd, (band.rows - known) // 2, 2))


def _add(
    sums: tirx.Buffer,
    group: Sequence[tuple[int, Tap]],
    staged: Staged,
    slope: Read,
    machine: Machine,
    rows: "_Rows",
) -> None:
    """Emits what some rows of a band add to the sums of some taps.

    Args:
        sums: a vector for each tap.
        group: taps with their numbers.
        staged: the band.
        slope: the gradient of its results.
        machine: that adds them.
        rows: those.
    """
    lanes = int(sums.shape[1])
    whole = ramp(0, lanes)
    held = T.sblock_alloc_buffer((len(group), lanes), "float32", scope="local")
    for slot, (number, _) in enumerate(group):
        T.buffer_store(held, sums[number, whole], [slot, whole])
    is_once = _is_once(staged.band.results[1], machine)
    once = [(tap.phase, tap) for _, tap in group] if is_once else []
    with T.serial(rows.count) as step:
        at = rows.at(step)

        def add(tapped: Tapped, column: Index, width: int, seen: int) -> None:
            for k, row in enumerate(at):
                value = slope(row, column, width)
                if seen:
                    is_new = ramp(0, width) >= splat(index(seen), width)
                    value = tirx.Select(is_new, value, _zero(width))
                value = T.bind(value)
                for slot, (_, tap) in enumerate(group):
                    there = tapped(tap.phase, tap, k)
                    T.buffer_store(held, held[slot, whole] + value * there, [slot, whole])

        across = staged.band.results[1], machine.lanes
        each_tapped(staged, at[0], len(at), across, once, add)
    for slot, (number, _) in enumerate(group):
        T.buffer_store(sums, held[slot, whole], [number, whole])


# Of each product of a convolution: the family where its groups have one channel.
FAMILIES = {
    name: f"depthwise-{name}" for name in ("convolution", "data-gradient", "weight-gradient")
}
# What emits the loops of each.
DEPTHWISE_LOOPS: dict[str, Callable[[Product, Machine], None]] = dict(
    zip(FAMILIES.values(), (_forward, _data_gradient, _weight_gradient), strict=True)
)


def _band_of_image(window: Window, machine: Machine) -> Band:
    """The band that results of the forward kernel, and of the weight gradient, read."""
    shifts = [tap.shift for tap in window.taps()]
    usual = usual_band(window.image, window.stride, window.out, shifts, multiple=_multiple(machine))
    return decided(usual, machine)


def _multiple(machine: Machine) -> int:
    """Of which the pitch of a band's rows is a multiple.

    A phone's core adds large constants to an address only in whole vectors: with such rows all taps
    of a column share a register, where each would take an addition of its own.
    """
    return machine.lanes if machine.first_bytes else 1


def _rows_at_once(columns: int, machine: Machine, shared: int = 2) -> int:
    """Rows of results that are computed at once: they share taps, where rows fill a vector."""
    usual = shared if columns >= machine.lanes else 1
    (rows,) = machine.decide("rows", [(each,) for each in _ROWS], (usual,))
    return rows


def _shared_rows(window: Window, machine: Machine) -> int:
    """Rows of results of a forward kernel that are worth computing at once.

    A phone's core loads hardly more vectors than it multiplies: four rows read a quarter less than
    two, where each row of the image is read by several rows of results. Where each row is loaded
    once, LLVM unrolls the loop of columns, and sums of four rows do not fit in registers.
    """
    return 4 if _overlap(window, machine) and not _is_once(window.out[1], machine) else 2


def _is_once(columns: int, machine: Machine) -> bool:
    """Whether rows of a band are loaded once: where a load stops multiply-adds, and rows go on."""
    return machine.blocked > 0 and columns >= 2 * machine.lanes


def _overlap(window: Window, machine: Machine) -> bool:
    """Whether a phone's core reads rows of an image for several rows of results."""
    return machine.first_bytes > 0 and window.stride[0] == 1


def _each_row(band: Band, at_once: int, emit: Callable[[Index, int], None]) -> None:
    """Emits `emit(row, count)` for a band's rows of results, `at_once` of them."""
    whole, rest = divmod(band.rows, at_once)
    if whole:
        with T.serial(whole) as step:
            emit(step * at_once, at_once)
    if rest:
        emit(whole * at_once, rest)


def _sums(
    filters: int,
    term: Callable[[Index, Tap, int], ir.Expr],
    wanted: Sequence[tuple[Sequence[Tap], int]],
    width: int,
) -> list[ir.Expr]:
    """Emits sums over filters and taps.

    Args:
        filters: how many there are.
        term: of a filter, a tap, and the number of a row.
        wanted: taps and row of each sum.
        width: elements of a vector.
    """

    def of(filter_: Index) -> Iterator[ir.Expr]:
        for taps, k in wanted:
            terms = [term(filter_, tap, k) for tap in taps]
            yield functools.reduce(operator.add, terms) if terms else _zero(width)

    if filters == 1:
        return [T.bind(value) for value in of(0)]
    held = T.sblock_alloc_buffer((len(wanted), width), "float32", scope="local")
    whole = ramp(0, width)
    for slot in range(len(wanted)):
        T.buffer_store(held, _zero(width), [slot, whole])
    with T.serial(filters) as filter_:
        for slot, value in enumerate(of(filter_)):
            T.buffer_store(held, held[slot, whole] + value, [slot, whole])
    return [T.bind(held[slot, whole]) for slot in range(len(wanted))]


def _store(product: Product, at: Sequence[Index], value: ir.Expr, width: int) -> None:
    """Emits the store of a vector after its epilogue; its first element has that index."""
    held = T.sblock_alloc_buffer((width,), "float32", scope="local")
    T.buffer_store(held, value, [ramp(0, width)])
    *outer, first = map(index, at)
    with T.vectorized(width) as lane:
        product.store([*outer, first + lane], held[lane])


def _window(numbers: Sequence[int]) -> Window:
    axes = [ConvolutionAxis(*numbers[:_NUMBERS]), ConvolutionAxis(*numbers[_NUMBERS:])]
    names = ("size", "out", "kernel", "stride", "dilation", "pad")
    return Window(*(pair([getattr(axis, name) for axis in axes]) for name in names))


def _sizes(tensor: Readable) -> list[int]:
    return [int(size) for size in tensor.shape]


def _divided(number: ir.Expr, by: int) -> tuple[ir.Expr, ir.Expr]:
    bound = T.bind(number)
    return bound // by, bound % by


def _back(tap: Tap) -> Tap:
    """Inverts a tap: from what a step reads by it to that step."""
    return Tap(tap.at, tap.phase, (-tap.shift[0], -tap.shift[1]))


def _of_phase(taps: Sequence[Tap], phase: int) -> list[Tap]:
    return [tap for tap in taps if tap.phase == phase]


def _zeros(lines: int, size: int, machine: Machine) -> tirx.Buffer:
    """Bands; where a row is loaded once, one vector more may be read behind each."""
    lanes = machine.lanes
    vectors = -(-size // lanes) + bool(machine.blocked)
    buffer = T.sblock_alloc_buffer((lines, vectors * lanes), "float32")
    fill(buffer, tirx.const(0.0, "float32"), lanes)
    return buffer


def _zero(width: int) -> ir.Expr:
    return splat(tirx.const(0.0, "float32"), width)


def _reader(tensor: Readable, n: ir.Expr, channel: ir.Expr) -> Read:
    """Reads a plane of a tensor as float32, whatever it is stored in."""
    return lambda row, column, width: load(tensor, [n, channel, row, ramp(column, width)])


def _from(first: Index, read: Read, row: Index, column: Index, width: int) -> ir.Expr:
    """Reads rows that are counted from another one on."""
    return read(first + row, column, width)


def _weight(w: Readable, o: Index, tap: Tap, width: int) -> ir.Expr:
    return splat(load(w, [o, 0, *tap.at]), width)


def _pairwise(parts: list[ir.Expr]) -> ir.Expr:
    """The sum of numbers, half by half: its rounding grows with the logarithm of their count."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _pairwise(parts[:half]) + _pairwise(parts[half:])
