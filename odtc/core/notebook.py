"""Tables as notebooks show them: what `_repr_html_` gives."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), below: str = "") -> str:
    """A table of texts, whose numbers are on the right.

    Args:
        rows: of cells.
        head: the names of the columns; none where it is empty.
        below: a line under the table.
    """
    parts = ["<table>"]
    if head:
        parts.append(f"<thead><tr>{_cells(head, 'th')}</tr></thead>")
    parts += ["<tbody>", *(f"<tr>{_cells(row, 'td')}</tr>" for row in rows), "</tbody></table>"]
    return "".join([*parts, *([f"<p>{escape(below)}</p>"] if below else [])])


def _cells(row: Sequence[str], tag: str) -> str:
    return "".join(f'<{tag} style="text-align:right">{escape(cell)}</{tag}>' for cell in row)
