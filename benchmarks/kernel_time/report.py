"""The kernels of a step as tables, sums and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from benchmarks.ceilings import Ceilings
from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.products import DATA, FORWARD, WEIGHT, LayerProduct

OTHER = "other"
# Shapes of a kernel in a table: the concatenation of an LSTM's states has a hundred.
_SHOWN = 6


@dataclass(frozen=True)
class KernelRow:
    """All calls of one kernel in a step.

    Attributes:
        kernel: its name.
        kind: of the product, or `other`.
        layers: that the product is of.
        shapes: of its tensors.
        calls: in a step.
        seconds: of all of them.
        flops: of all of them; 0 where it is no product.
        bytes: of the tensors of all of them.
    """

    kernel: str
    kind: str
    layers: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    calls: int
    seconds: float
    flops: int
    bytes: int


def rows_of(
    calls: Sequence[KernelCall], products: Sequence[LayerProduct | None]
) -> list[KernelRow]:
    """The kernels of a step, those that take most time first."""
    groups: dict[tuple[str, str], list[tuple[KernelCall, LayerProduct | None]]] = {}
    for call, product in zip(calls, products, strict=True):
        kind = product.kind if product else OTHER
        groups.setdefault((call.name, kind), []).append((call, product))
    rows = []
    for (name, kind), group in groups.items():
        call, product = group[0]
        rows.append(
            KernelRow(
                name,
                kind,
                product.layer.names if product else (),
                call.shapes,
                len(group),
                sum(c.seconds for c, _ in group),
                sum(p.flops for _, p in group if p),
                sum(c.bytes for c, _ in group),
            )
        )
    return sorted(rows, key=lambda row: -row.seconds)


def product_table(rows: Sequence[KernelRow], ceilings: Ceilings, total: float) -> Table:
    """Convolutions and matrix products, with shares of the measured product and of registers."""
    heads = ("ms", "of step", "calls", "kind", "layer", "shapes", "GFLOP/s", "of gemm", "of fma")
    table = Table(*heads, title="products", box=box.SIMPLE)
    for row in rows:
        if row.kind != OTHER:
            rate = row.flops / row.seconds
            shares = (rate / ceilings.product, rate / ceilings.fma)
            ends = (f"{rate / 1e9:.1f}", *(f"{share:.0%}" for share in shares))
            table.add_row(*_time(row, total), row.kind, _layers(row), _shapes(row), *ends)
    return table


def other_table(rows: Sequence[KernelRow], ceilings: Ceilings, total: float) -> Table:
    """All other kernels, by the share of a copy."""
    heads = ("ms", "of step", "calls", "kernel", "shapes", "GB/s", "of copy")
    table = Table(*heads, title="others", box=box.SIMPLE)
    for row in rows:
        if row.kind == OTHER:
            rate = row.bytes / row.seconds
            ends = (f"{rate / 1e9:.1f}", f"{rate / ceilings.copy:.0%}")
            table.add_row(*_time(row, total), row.kernel, _shapes(row), *ends)
    return table


def sums(rows: Sequence[KernelRow], ceilings: Ceilings) -> list[str]:
    """One line for each kind of kernel."""
    lines = []
    for kind in (FORWARD, DATA, WEIGHT, OTHER):
        own = [row for row in rows if row.kind == kind]
        seconds = sum(row.seconds for row in own)
        if not own:
            continue
        if kind == OTHER:
            rate = sum(row.bytes for row in own) / seconds
            reached = f"{rate / 1e9:.1f} GB/s, {rate / ceilings.copy:.0%} of a copy"
        else:
            rate = sum(row.flops for row in own) / seconds
            share = rate / ceilings.product
            reached = f"{rate / 1e9:.1f} GFLOP/s, {share:.0%} of a matrix product"
        calls = sum(row.calls for row in own)
        lines.append(f"{kind}: {seconds * 1e3:.2f} ms in {calls} calls, {reached}")
    return lines


def _time(row: KernelRow, total: float) -> tuple[str, str, str]:
    return f"{row.seconds * 1e3:.3f}", f"{row.seconds / total:.1%}", str(row.calls)


def _layers(row: KernelRow) -> str:
    more = len(row.layers) - 1
    return row.layers[0] + (f" and {more} more" if more else "")


def _shapes(row: KernelRow) -> str:
    shapes = ["x".join(map(str, shape)) or "1" for shape in row.shapes]
    if len(shapes) > _SHOWN:
        shapes[_SHOWN - 1 : -1] = ["..."]
    return " ".join(shapes)
