"""Pieces of HTML: everything that comes from outside is escaped here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from odtc.charts.palette import OTHER, Mark, mark_of
from odtc.charts.strips import key

# The mark of an engine, whatever else is on the page.
_MARKS = {
    "odtc": mark_of(0),
    "onnxruntime-training": mark_of(1),
    "pytorch": mark_of(2),
    "torch.compile": mark_of(3),
    "mnn": mark_of(4),
    "tvm": mark_of(11),
}
_BUDGET = Mark(OTHER, mark_of(0).shape)


def mark_of_engine(engine: str) -> Mark:
    """The mark of an engine; odtc with a budget has odtc's shape in grey."""
    return _MARKS.get(engine, _BUDGET)


def legend(engines: Iterable[str]) -> str:
    """Returns the legend of the engines' marks, in HTML."""
    marks = (f"<span>{key(mark_of_engine(name))}{escape(name)}</span>" for name in engines)
    return f'<div class="legend">{"".join(marks)}</div>'


@dataclass(frozen=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: shown text.
        value: what is sorted by and exported; the text if None.
        kind: classes of its style.
        tip: shown to the pointer.
    """

    text: str
    value: float | None = None
    kind: str = ""
    tip: str = ""

    def html(self) -> str:
        """The cell."""
        value = "" if self.value is None else f' data-v="{self.value:.10g}"'
        kind = f' class="{self.kind}"' if self.kind else ""
        tip = f' title="{escape(self.tip)}"' if self.tip else ""
        return f"<td{kind}{value}{tip}>{escape(self.text)}</td>"


def number(value: float | None, digits: int = 1) -> TableCell:
    """A cell of a number; empty where unknown."""
    return TableCell("") if value is None else TableCell(f"{value:,.{digits}f}", value)


def text(value: str) -> TableCell:
    """A cell of words."""
    return TableCell(value, kind="text")


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[TableCell]], label: str) -> str:
    """A table that is sorted by its heads, and exported by a button.

    Args:
        name: of the table on the page and of the file.
        heads: of the columns; the first ones, marked by a leading `_`, hold words.
        rows: of cells.
        label: its caption for screen readers.
    """
    head = "".join(_head(each) for each in heads)
    body = "\n".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="tools"><button type="button" data-csv="{name}">Save as CSV</button></div>'
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">'
        f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )


def _head(name: str) -> str:
    words = name.startswith("_")
    kind = ' class="text"' if words else ""
    label = escape(name.removeprefix("_"))
    return f'<th scope="col"{kind}><button type="button">{label}</button></th>'


def section(name: str, title: str, body: str, kind: str = "") -> str:
    """A part of the page that links lead to."""
    kind = f' class="{kind}"' if kind else ""
    return f'<section id="{name}"{kind}><h2>{escape(title)}</h2>\n{body}\n</section>'
