"""The tables of what was counted. Nothing in them is a time."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.arm.blocks import LINE_BYTES
from benchmarks.arm.cores import Core
from benchmarks.arm.figures import Figures, floor
from benchmarks.arm.instructions import Kind
from benchmarks.arm.sides import Side
from benchmarks.output import numbers_table

# As far as the losses of two engines may be apart.
_NEAR = 1e-4


@dataclass(frozen=True)
class Row:
    """A model on a core.

    Attributes:
        model: its name.
        batch: samples of a step.
        core: that is modelled.
        flops: that a step needs.
        sides: odtc first.
    """

    model: str
    batch: int
    core: Core
    flops: int
    sides: Sequence[Side]

    def differs(self, side: Side) -> str:
        """Why a side that was counted is not compared with odtc; empty where it is."""
        ours = self.sides[0]
        if ours.skipped:
            return "odtc was not counted"
        pairs = zip(ours.losses, side.losses, strict=True)
        if not all(abs(one - other) <= _NEAR * abs(one) for one, other in pairs):
            return f"losses {side.losses} are not odtc's"
        # Losses that stay as they are would say nothing of gradients.
        if not max(ours.losses) - min(ours.losses) > _NEAR * abs(ours.losses[0]):
            return "the updates move no loss: the sides are not compared"
        return ""

    @property
    def peers(self) -> list[Side]:
        """The other sides that were counted."""
        return [side for side in self.sides[1:] if not side.skipped]

    @property
    def is_right(self) -> bool:
        """Whether odtc was counted, and is compared with each peer that was."""
        return not self.sides[0].skipped and not any(map(self.differs, self.peers))

    def ratios(self) -> tuple[float, float] | None:
        """Odtc's modelled cycles over those of the better peer, under either bound."""
        peers = [last_of(side) for side in self.peers if not self.differs(side)]
        if not peers:
            return None
        ours = last_of(self.sides[0])
        return (
            ours.overlapped(self.core) / min(each.overlapped(self.core) for each in peers),
            ours.apart(self.core) / min(each.apart(self.core) for each in peers),
        )


def last_of(side: Side) -> Figures:
    """The last step of those that were counted."""
    return side.steps[-1].total


def table_of(rows: Sequence[Row]) -> Table:
    """All sides, in all."""
    table = numbers_table("model", "core", "side", *_HEADS, "differs")
    for row in rows:
        for side in row.sides:
            head = f"{row.model} b{row.batch}", row.core.name, side.name
            if side.skipped:
                table.add_row(*head, *("–" for _ in _HEADS), side.skipped[:60])
                continue
            cells = _cells(last_of(side), row.core, row.flops)
            table.add_row(*head, *cells, row.differs(side))
    return table


_HEADS = (
    "M instructions",
    "multiply-adds",
    "MFLOP of needed",
    "MB loaded, stored",
    "k missed L1, L2, L3",
    "M cycles, overlapped",
    "apart",
    "of the floor",
)


def _cells(figures: Figures, core: Core, needed: int) -> list[str]:
    overlapped = figures.overlapped(core)
    return [
        f"{figures.instructions / 1e6:,.1f}",
        f"{figures.multiply_add_share:.0%}",
        f"{figures.flops / 1e6:,.0f} of {needed / 1e6:,.0f}",
        f"{figures.loaded / 1e6:,.0f}, {figures.stored / 1e6:,.0f}",
        ", ".join(f"{each / 1e3:,.0f}" for each in figures.missed),
        f"{overlapped / 1e6:,.1f}",
        f"{figures.apart(core) / 1e6:,.1f}",
        f"{overlapped / floor(needed, core):.2f}",
    ]


def kernels_table(row: Row, most: int) -> Table:
    """Odtc's kernels, those with the most modelled cycles first."""
    side = row.sides[0]
    table = numbers_table("kernel", "of", *_KERNEL_HEADS)
    for place, figures in list(side.steps[-1].places.items())[:most]:
        name = place.function.removeprefix("__tvm_ffi_") or place.library
        nodes = side.nodes.get(name.partition("_compute_")[0], "")
        table.add_row(name[:40], nodes[:40], *_kernel_cells(figures, row.core))
    return table


_KERNEL_HEADS = (
    "k instructions",
    "multiply-adds",
    "MFLOP",
    "L1 bytes filled per byte loaded",
    "k cycles, overlapped",
    "of its multiply-adds'",
)


def _kernel_cells(figures: Figures, core: Core) -> list[str]:
    needed = figures.kinds[Kind.MULTIPLY_ADD] / core.multiplies
    return [
        f"{figures.instructions / 1e3:,.0f}",
        f"{figures.multiply_add_share:.0%}",
        f"{figures.flops / 1e6:,.1f}",
        f"{figures.missed[0] * LINE_BYTES / max(figures.loaded, 1):.2f}",
        f"{figures.overlapped(core) / 1e3:,.0f}",
        f"{figures.overlapped(core) / needed:.2f}" if needed else "–",
    ]


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Odtc against the better peer, by core: geometric means, and where odtc loses."""
    for name in dict.fromkeys(row.core.name for row in rows):
        found = {row.model: r for row in rows if row.core.name == name and (r := row.ratios())}
        if not found:
            continue
        for bound, label in enumerate(("everything overlaps", "nothing overlaps")):
            ratios = [each[bound] for each in found.values()]
            lost = [model for model, each in found.items() if each[bound] >= 1]
            yield (
                f"{name}, {label}: odtc's modelled cycles are "
                f"{statistics.geometric_mean(ratios):.2f} of the better peer's "
                f"over {len(ratios)} model{'s' if len(ratios) > 1 else ''}; "
                + (f"odtc loses on {', '.join(lost)}" if lost else "odtc loses on none")
            )


def figures_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of JSON: raw counts of each counted step."""
    return [
        {
            "model": row.model,
            "batch": row.batch,
            "core": row.core.name,
            "needed_flops": row.flops,
            "side": side.name,
            "skipped": side.skipped,
            "differs": row.differs(side) if side in row.peers else "",
            "losses": side.losses,
            "steps": [_raw(step.total, row.core) for step in side.steps],
        }
        for row in rows
        for side in row.sides
    ]


def _raw(figures: Figures, core: Core) -> dict[str, Any]:
    return {
        "instructions": figures.instructions,
        "kinds": {kind.value: count for kind, count in figures.kinds.items()},
        "flops": figures.flops,
        "loaded": figures.loaded,
        "stored": figures.stored,
        "missed": figures.missed,
        "walks": figures.walks,
        "written_back": figures.written_back,
        "pipeline": round(figures.pipeline),
        "overlapped": round(figures.overlapped(core)),
        "apart": round(figures.apart(core)),
    }
