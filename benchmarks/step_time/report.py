"""Results as a table, as charts, and as JSON with raw samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from benchmarks.ceilings import Ceilings
from benchmarks.output import panels, save_figure
from benchmarks.step_time.compare import StepComparison, Timing, geometric_means, ratio, ratios
from benchmarks.step_time.engines import ENGINES
from odtc.comparison.measures.measure import spread

# Panels in a row of the rooflines.
_ACROSS = 3


def rate(timing: Timing, item: StepComparison) -> float:
    """Operations a second in the median step."""
    return item.work.flops / spread(timing.seconds).median


def table_of(comparisons: Sequence[StepComparison]) -> Table:
    """Medians with quartiles, and how many times as long as odtc each engine takes."""
    heads = ("model", "batch", "threads", "engine", "ms per step", "GFLOP/s", "times odtc's")
    table = Table(*heads, box=box.SIMPLE)
    for item in comparisons:
        for timing in item.timings:
            case = (item.model, str(item.batch), str(item.threads), timing.engine)
            if timing.skipped:
                table.add_row(*case, "not timed", "", "")
                continue
            table.add_row(
                *case,
                spread(timing.seconds).text(scale=1e3),
                f"{rate(timing, item) / 1e9:.1f}",
                ratio(timing, item.ours).text(),
            )
    return table


def figures_of(comparisons: Sequence[StepComparison]) -> list[dict[str, Any]]:
    """Samples for docs/performance.md: milliseconds of odtc, and peers' ratios turn by turn."""
    return [
        {
            "model": item.model,
            "batch": item.batch,
            "threads": item.threads,
            "ms": [seconds * 1e3 for seconds in item.ours.seconds],
            "ratios": {
                timing.engine: ratios(timing, item.ours)
                for timing in item.timings[1:]
                if timing.seconds
            },
        }
        for item in comparisons
    ]


def reasons(comparisons: Sequence[StepComparison]) -> list[str]:
    """One line for each engine that was not timed; once, whatever the number of threads."""
    lines = [
        f"{item.model}, {timing.engine}: {timing.skipped}"
        for item in comparisons
        for timing in item.timings
        if timing.skipped
    ]
    return list(dict.fromkeys(lines))


def summary(comparisons: Sequence[StepComparison]) -> list[str]:
    """One line for each number of threads: the geometric mean against the faster peer."""
    return [
        f"threads {threads}: the faster peer of each model takes {mean:.2f} times odtc's time "
        f"(geometric mean of {count} models)"
        for threads, (mean, count) in geometric_means(comparisons).items()
    ]


def draw(comparisons: Sequence[StepComparison], title: str, path: Path) -> None:
    """Writes a bar chart as SVG: medians, with quartiles as whiskers, one panel per comparison."""
    bars = max(len(item.timings) for item in comparisons)
    height = 0.8 + (0.5 + 0.22 * bars) * len(comparisons)
    figure, places = panels(len(comparisons), 1, (8, height))
    for panel, item in zip(places, comparisons, strict=True):
        timed = [timing for timing in item.timings if timing.seconds]
        values = [spread(np.multiply(timing.seconds, 1e3).tolist()) for timing in timed]
        whiskers = [[v.median - v.lower for v in values], [v.upper - v.median for v in values]]
        drawn = panel.barh(
            [timing.engine for timing in timed],
            [value.median for value in values],
            xerr=whiskers,
            color=[_colour(timing) for timing in timed],
        )
        panel.bar_label(drawn, [f"{value.median:.2f}" for value in values], padding=4)
        panel.set_title(_label(item), loc="left", fontsize=10)
        panel.invert_yaxis()
        panel.margins(x=0.15)
    places[-1].set_xlabel("ms per training step: median and quartiles")
    save_figure(figure, title, path)


def draw_rooflines(
    comparisons: Sequence[StepComparison], ceilings: Sequence[Ceilings], title: str, path: Path
) -> None:
    """Writes a roofline per comparison as SVG.

    The roof is the measured copy bandwidth times the intensity, up to the measured peaks; each
    engine is a point, by the arithmetic of the step over its time. The intensity is that of nodes
    which read and write memory once: an engine that fuses nodes may lie above the slope.
    """
    limits = {each.threads: each for each in ceilings}
    down = -(-len(comparisons) // _ACROSS)
    figure, places = panels(down, _ACROSS, (4 * _ACROSS, 0.5 + 3 * down))
    for panel, item in zip(places, comparisons, strict=False):
        _roof(panel, limits[item.threads], item.work.intensity)
        for timing in item.timings:
            if timing.seconds:
                reached = rate(timing, item) / 1e9
                panel.plot(
                    item.work.intensity, reached, "o", color=_colour(timing), label=timing.engine
                )
        panel.set_title(_label(item), loc="left", fontsize=9)
        panel.legend(fontsize=6, loc="lower right")
    for panel in places[len(comparisons) :]:
        panel.set_axis_off()
    figure.supxlabel("operations per byte", fontsize=9)
    figure.supylabel("GFLOP/s", fontsize=9)
    save_figure(figure, title, path)


def _roof(panel: Any, limits: Ceilings, intensity: float) -> None:
    """The ceilings, for a span of intensities around the model's."""
    ridge = limits.fma / limits.copy
    span = np.geomspace(min(intensity, ridge) / 8, max(intensity, ridge) * 8, 100)
    for peak, style, name in (
        (limits.fma, "-", "multiply-adds in registers"),
        (limits.product, "--", "matrix product"),
    ):
        roof = np.minimum(peak, span * limits.copy) / 1e9
        panel.loglog(span, roof, style, color="0.4", linewidth=1, label=name)


def _label(item: StepComparison) -> str:
    threads = f"{item.threads} thread" + "s" * (item.threads > 1)
    return f"{item.model}, batch {item.batch}, {threads}"


def _colour(timing: Timing) -> str:
    known = list(ENGINES)
    return f"C{known.index(timing.engine) if timing.engine in known else len(known)}"
