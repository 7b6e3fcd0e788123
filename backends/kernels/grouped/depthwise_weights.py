"""The gradient of a depthwise convolution's weights: a vector for each position's sum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import (
    Index,
    ramp,
    splat,
    widest,
)
from odtc.backends.kernels.grouped.depthwise_planes import (
    band_of_image,
    loads_once,
    plane_reader,
    rows_overlap,
    sizes_of,
    window_of,
    zero_bands,
    zero_vector,
)
from odtc.backends.kernels.grouped.taps import Staged, Tapped, each_tapped
from odtc.backends.kernels.pool.bands import (
    Band,
    each_band,
    planes_each,
    stage,
)
from odtc.backends.kernels.pool.planes import Read, Tap, fill
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.tile import Machine

# Sums of one pass over a plane: they stay in vector registers, of which some CPUs have 16.
_SUMS = 12


def weight_gradient(product: Product, machine: Machine) -> None:
    """Emits `dw[o, i] = sum over n, p of dy[n, o, p] * x[n, c, p * stride + i * dilation - pad]`.

    Each position's sum is a vector until all samples are added up.
    """
    (x, dy), window = product.operands, window_of(product.numbers)
    (batch, channels, *_), taps = sizes_of(x), window.taps()
    outputs = sizes_of(dy)[1]
    band = band_of_image(window, machine)
    each, lanes = planes_each(outputs, machine), widest(window.out[1], machine.lanes)
    pairs = rows_overlap(window, machine) and band.rows > 1
    with T.parallel(outputs // each) as task:
        staged = zero_bands(*band.shape, machine)
        sums = T.sblock_alloc_buffer((len(taps), lanes), "float32")
        with T.serial(each) as number:
            o = T.bind(task * each + number)
            fill(sums, tirx.const(0.0, "float32"), lanes)
            with T.serial(batch) as n:

                def from_band(first: Index, known: Index) -> None:
                    read, slope = (
                        plane_reader(x, n, o // (outputs // channels)),
                        plane_reader(dy, n, o),
                    )
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
    is_once = loads_once(staged.band.results[1], machine)
    once = [(tap.phase, tap) for _, tap in group] if is_once else []
    with T.serial(rows.count) as step:
        at = rows.at(step)

        def add(tapped: Tapped, column: Index, width: int, seen: int) -> None:
            for k, row in enumerate(at):
                value = slope(row, column, width)
                if seen:
                    is_new = ramp(0, width) >= splat(index(seen), width)
                    value = tirx.Select(is_new, value, zero_vector(width))
                value = T.bind(value)
                for slot, (_, tap) in enumerate(group):
                    there = tapped(tap.phase, tap, k)
                    T.buffer_store(held, held[slot, whole] + value * there, [slot, whole])

        across = staged.band.results[1], machine.lanes
        each_tapped(staged, at[0], len(at), across, once, add)
    for slot, (number, _) in enumerate(group):
        T.buffer_store(sums, held[slot, whole], [number, whole])


def _from(first: Index, read: Read, row: Index, column: Index, width: int) -> ir.Expr:
    """Reads rows that are counted from another one on."""
    return read(first + row, column, width)


def _pairwise(parts: list[ir.Expr]) -> ir.Expr:
    """The sum of numbers, half by half: its rounding grows with the logarithm of their count."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _pairwise(parts[:half]) + _pairwise(parts[half:])
