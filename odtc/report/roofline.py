"""Rooflines: each engine's rate against the machine's peak, by operations per byte.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. A step's
intensity is that of an ONNX graph whose nodes read and write memory once: an engine that fuses
nodes moves less, and may lie above the slope.
"""

from collections.abc import Sequence

from odtc.charts.chart import Axis, Chart
from odtc.charts.figure import figure
from odtc.charts.rows import Dot, Line, Points
from odtc.charts.scales import Log
from odtc.comparison.results import Result
from odtc.comparison.row import ComparisonRow
from odtc.report.html import mark_of_engine, section

_GIGA = 1e9
_INTRO = (
    "<p>The slope is a copy of large arrays, the roof multiply-adds in registers, both measured on "
    "this machine with these threads. The operations and the bytes of a step are counted in the "
    "ONNX graph, so that they are the same for every engine; one that fuses nodes moves less, and "
    "may lie above the slope.</p>"
)


def rooflines(results: Sequence[Result]) -> str:
    """A roofline for each number of threads whose ceilings were measured."""
    known = [each for each in results if each.rate and _has_ceilings(each.rows[0])]
    if not known:
        return ""
    threads = dict.fromkeys(each.setting.threads for each in known)
    pictures = (_picture([it for it in known if it.setting.threads == n], n) for n in threads)
    return section("roofline", "Roofline", _INTRO + "".join(map(figure, pictures)))


def _has_ceilings(row: ComparisonRow) -> bool:
    return all((row.moved, row.fma, row.copy))


def _picture(results: Sequence[Result], threads: int) -> Chart:
    fma = max(each.rows[0].fma for each in results)
    copy = max(each.rows[0].copy for each in results)
    ridge = fma / copy
    intensities = [*map(_intensity, results), ridge]
    across = Log(min(intensities) / 3, max(intensities) * 3)
    low = min(*(each.rate or 0.0 for each in results), across.low * copy)
    high = max(*(each.rate or 0.0 for each in results), fma)
    roof = [(x, min(fma, x * copy) / _GIGA) for x in (across.low, ridge, across.high)]
    ceiling = f"at most {fma / _GIGA:.0f} GFLOP/s; {copy / _GIGA:.1f} GB/s"
    engines = dict.fromkeys(each.engine for each in results)
    return Chart(
        f"Threads {threads}",
        f"The rate of each engine's step by the operations of a byte; {ceiling}.",
        Axis(across, "operations per byte"),
        Axis(Log(low / _GIGA / 1.5, high / _GIGA * 1.6), "GFLOP/s"),
        [
            Line("the machine's roof", "roof", roof, ceiling),
            *(
                Points(
                    name,
                    mark_of_engine(name),
                    [_dot(each) for each in results if each.engine == name],
                    joined=False,
                )
                for name in engines
            ),
        ],
    )


def _dot(result: Result) -> Dot:
    x, y = _intensity(result), (result.rate or 0.0) / _GIGA
    said = f"{result.setting.text()}, {result.engine}: {y:.3g} GFLOP/s, {x:.3g} per byte"
    return Dot((x, y), said)


def _intensity(result: Result) -> float:
    return result.rows[0].flops / result.rows[0].moved
