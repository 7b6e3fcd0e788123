"""Rooflines: each engine's rate against the machine's peak, by operations per byte.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. A step's
intensity is that of an ONNX graph whose nodes read and write memory once: an engine that fuses
nodes moves less, and may lie above the slope.
"""

from collections.abc import Sequence

from odtc.comparison.results import Result
from odtc.report.charts import dot, path, plane
from odtc.report.html import colour_of, legend, section
from odtc.report.scales import Log

_GIGA = 1e9
_INTRO = (
    "<p>The slope is a copy of large arrays, the roof multiply-adds in registers, both measured on "
    "this machine with these threads. The operations and the bytes of a step are counted in the "
    "ONNX graph, so that they are the same for every engine; one that fuses nodes moves less, and "
    "may lie above the slope.</p>"
)


def rooflines(results: Sequence[Result]) -> str:
    """A roofline for each number of threads whose ceilings were measured."""
    known = [each for each in results if each.rate and each.rows[0].moved and each.rows[0].fma]
    if not known:
        return ""
    threads = dict.fromkeys(each.setting.threads for each in known)
    pictures = (_picture([it for it in known if it.setting.threads == n], n) for n in threads)
    engines = legend(dict.fromkeys(each.engine for each in known))
    return section("roofline", "Roofline", _INTRO + "".join(pictures) + engines)


def _picture(results: Sequence[Result], threads: int) -> str:
    fma = max(each.rows[0].fma for each in results)
    copy = max(each.rows[0].copy for each in results)
    ridge = fma / copy
    points = [(_intensity(each), each.rate or 0.0, each) for each in results]
    intensities = [*(x for x, _, _ in points), ridge]
    across = Log(min(intensities) / 3, max(intensities) * 3)
    low = min(*(y for _, y, _ in points), across.low * copy)
    high = max(*(y for _, y, _ in points), fma)
    up = Log(low / _GIGA / 1.5, high / _GIGA * 1.6)

    def place(x: float, y: float) -> tuple[float, float]:
        return across.at(x), 100 - up.at(y / _GIGA)

    roof = path([place(x, min(fma, x * copy)) for x in (across.low, ridge, across.high)], "roof")
    dots = "".join(
        dot(
            place(x, y),
            colour_of(each.engine),
            f"{each.setting.text()}, {each.engine}: {y / _GIGA:.3g} GFLOP/s, {x:.3g} per byte",
        )
        for x, y, each in points
    )
    units = ("operations per byte", f"GFLOP/s, at most {fma / _GIGA:.0f}; {copy / _GIGA:.1f} GB/s")
    return plane(f"Threads {threads}", units, (across, up), roof + dots)


def _intensity(result: Result) -> float:
    return result.rows[0].flops / result.rows[0].moved
