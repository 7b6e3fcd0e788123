"""Numbers and tables as the pages show them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odtc.comparison.measures.measure import Spread, spread

# A figure: a number, raw samples, or their median with quartiles where no sample was kept.
Figure = float | Sequence[float] | Mapping[str, float]


def spread_of(figure: Figure) -> Spread:
    """Median and quartiles."""
    if isinstance(figure, Mapping):
        return Spread(figure["median"], figure["lower"], figure["upper"])
    return spread(figure if isinstance(figure, Sequence) else [figure])


def median_of(figure: Figure) -> float:
    """The figure, or the median of its samples."""
    return spread_of(figure).median


def ratio(figure: Figure | None) -> str:
    """`1.05 (1.04 to 1.08)`, or `1.05` where one number was measured."""
    if figure is None:
        return ""
    if isinstance(figure, int | float):
        return f"{figure:.2f}"
    return spread_of(figure).text()


def number(value: float | None, digits: int = 1) -> str:
    """With commas; empty where there is none."""
    return "" if value is None else f"{value:,.{digits}f}"


def short(value: float) -> str:
    """With three digits or more: `0.320`, `45.0`, `2,006`."""
    return number(value, 3 if value < 1 else 1 if value < 100 else 0)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> list[str]:
    """Lines of Markdown.

    Args:
        heads: of the columns.
        rows: their cells.
        words: columns at the left that hold no numbers.
    """
    rule = "|".join("---" if at < words else "---:" for at in range(len(heads)))
    return [_line(heads), f"|{rule}|", *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def listed(items: Sequence[Any]) -> str:
    """`a, b and c`."""
    words = [str(each) for each in items]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
