"""Depthwise convolutions and their two gradients, plane by plane.

Each channel is convolved by itself, so there is no sum over channels, and little more to compute
than to read and write. A plane is staged some rows at a time (`bands.py`); results are computed a
few rows at once, as these share most of what they read, and stored after what is fused with them.
A channel `c` may have several filters; its outputs `o` follow each other.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tvm import ir
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import Readable, index, load
from odtc.backends.kernels.common.vectors import (
    Index,
    interleave,
    ramp,
    splat,
)
from odtc.backends.kernels.grouped.depthwise_planes import (
    band_of_image,
    divided,
    loads_once,
    pitch_multiple,
    plane_reader,
    rows_overlap,
    sizes_of,
    window_of,
    zero_bands,
    zero_vector,
)
from odtc.backends.kernels.grouped.depthwise_weights import weight_gradient
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
from odtc.backends.kernels.pool.planes import Tap, Window
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.tile import Machine

# Rows of results that may be computed at once.
_ROWS = (1, 2, 4)


def _forward(product: Product, machine: Machine) -> None:
    """Emits `y[n, o, p] = sum over i of w[o, i] * x[n, c, p * stride + i * dilation - pad]`."""
    (x, w), window = product.operands, window_of(product.numbers)
    (batch, channels, *_), lanes, taps = sizes_of(x), machine.lanes, window.taps()
    filters = sizes_of(w)[0] // channels
    band = band_of_image(window, machine)
    at_once = _rows_at_once(window.out[1], machine, _shared_rows(window, machine))
    is_once = loads_once(window.out[1], machine)
    once = [(tap.phase, tap) for tap in taps] if is_once else []
    each = planes_each(batch * channels, machine)
    with T.parallel(batch * channels // each) as task:
        staged = zero_bands(*band.shape, machine)
        with T.serial(each) as number:
            n, c = divided(task * each + number, channels)

            def from_band(first: Index, _: Index) -> None:
                stage(staged, band, first, lanes, plane_reader(x, n, c))
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
    (dy, w), window = product.operands, window_of(product.numbers)
    (batch, channels, *_), lanes = sizes_of(product.result), machine.lanes
    filters, taps = sizes_of(w)[0] // channels, [_back(tap) for tap in window.taps()]
    (height, columns), (down, right) = window.image, window.stride
    shifts = [tap.shift for tap in taps]
    multiple = pitch_multiple(machine)
    usual = usual_band(window.out, (1, 1), window.phase_size, shifts, filters, multiple)
    band = decided(usual, machine)
    # Of narrower rows all vectors are unrolled, and do not fit in registers.
    is_once = loads_once(columns // right // 2, machine)
    shared = 4 if rows_overlap(window, machine) and (is_once or not machine.blocked) else 2
    at_once = _rows_at_once(columns // right, machine, shared)
    each, has_once = planes_each(batch * channels, machine), is_once and filters == 1
    with T.parallel(batch * channels // each) as task:
        staged = zero_bands(filters, band.shape[1], machine)
        with T.serial(each) as number:
            n, c = divided(task * each + number, channels)

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
                    read = plane_reader(dy, n, c * filters + filter_)
                    stage(staged, band, first, lanes, read, line=filter_)
                for phase in range(min(down, height)):
                    _each_row(band, at_once, partial(rows, first, phase))

            each_band(band, from_band)


# Of each product of a convolution: the family where its groups have one channel.
FAMILIES = {
    name: f"depthwise-{name}" for name in ("convolution", "data-gradient", "weight-gradient")
}
# What emits the loops of each.
DEPTHWISE_LOOPS: dict[str, Callable[[Product, Machine], None]] = dict(
    zip(FAMILIES.values(), (_forward, _data_gradient, weight_gradient), strict=True)
)


def _rows_at_once(columns: int, machine: Machine, shared: int = 2) -> int:
    """Rows of results that are computed at once: they share taps, where rows fill a vector."""
    usual = shared if columns >= machine.lanes else 1
    (rows,) = machine.decide("rows", [(each,) for each in _ROWS], (usual,))
    return rows


def _shared_rows(window: Window, machine: Machine) -> int:
    """Rows of results of a forward kernel that are worth computing at once.

    A phone's core loads hardly more vectors than it multiplies: four rows read a quarter less than
    two, where each row of the image is read by several rows of results. With a stride they read a
    tenth less, which rows of less than four vectors do not pay for. Where each row is loaded once,
    LLVM unrolls the loop of columns, and sums of four rows do not fit in registers.
    """
    if loads_once(window.out[1], machine):
        return 2
    is_wide = machine.first_bytes > 0 and window.out[1] >= 4 * machine.lanes
    return 4 if rows_overlap(window, machine) or is_wide else 2


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
            yield functools.reduce(operator.add, terms) if terms else zero_vector(width)

    if filters == 1:
        return [T.bind(value) for value in of(0)]
    held = T.sblock_alloc_buffer((len(wanted), width), "float32", scope="local")
    whole = ramp(0, width)
    for slot in range(len(wanted)):
        T.buffer_store(held, zero_vector(width), [slot, whole])
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


def _back(tap: Tap) -> Tap:
    """Inverts a tap: from what a step reads by it to that step."""
    return Tap(tap.at, tap.phase, (-tap.shift[0], -tap.shift[1]))


def _of_phase(taps: Sequence[Tap], phase: int) -> list[Tap]:
    return [tap for tap in taps if tap.phase == phase]


def _weight(w: Readable, o: Index, tap: Tap, width: int) -> ir.Expr:
    return splat(load(w, [o, 0, *tap.at]), width)
