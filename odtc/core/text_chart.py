"""Charts of lines of text, for whoever has a terminal alone.

2.31 |****
|    ***
|       **    *
0.42 |         ****
"""

import math
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[float, float]]


def text_chart(series: Mapping[str, Points], width: int = 60, height: int = 10) -> list[str]:
    """Points as lines of text, from the top; of a column that has several, their mean is shown.

    Args:
        series: points (x, y) by the letter that marks them; later ones cover those before. Points
            that are not finite are left out.
        width: columns of the plane, at least 1, beside the numbers of y in front of it.
        height: lines of it, at least 2.
    """
    shown = {
        mark: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        for mark, points in series.items()
    }
    every = [point for points in shown.values() for point in points]
    if not every:
        return []
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    means = {mark: _by_column(points, left, right, width) for mark, points in shown.items()}
    values = [y for columns in means.values() for y in columns.values()]
    low, high = min(values), max(values)
    plane = [[" "] * width for _ in range(height)]
    for mark, columns in means.items():
        for column, value in columns.items():
            plane[_place(high - value, high - low, height)][column] = mark
    ends = {0: _number(high), height - 1: _number(low)}
    wide = max(map(len, ends.values()))
    return [
        f"{ends.get(number, ''):>{wide}} |{''.join(line).rstrip()}"
        for number, line in enumerate(plane)
    ]


def _by_column(points: Points, left: float, right: float, width: int) -> dict[int, float]:
    held: dict[int, list[float]] = {}
    for x, y in points:
        held.setdefault(_place(x - left, right - left, width), []).append(y)
    return {column: math.fsum(values) / len(values) for column, values in held.items()}


def _place(part: float, whole: float, count: int) -> int:
    """Which of so many cells a part of a length falls into."""
    return round(part / whole * (count - 1)) if whole > 0 else 0


def _number(value: float) -> str:
    return f"{value:.3g}"
