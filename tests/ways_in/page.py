"""docs/ways_in.md, written from the cells of the table."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.pages.parts import text_of
from tests.families import FAMILIES
from tests.ways_in.cell import STEPS, TOLERANCE, Cell, Outcome
from tests.ways_in.ways import WAYS

PAGE = Path(__file__).parents[2] / "docs" / "ways_in.md"

_HEAD = f"""# From PyTorch to a file: what is trained

Twelve families of models, in small configurations of torchvision, timm and transformers or
written for this table, go out of PyTorch in five ways. `python -m tests.ways_in` fills the table
and writes this page; the tests fill some of its cells. Each cell is one of three:

- *equal*: the losses of {STEPS} steps are PyTorch's within {TOLERANCE:g}, with the same set of
  trained tensors. The number is the largest difference.
- *warned*: the file is of another model than the module, and `odtc check` and `odtc compile` name
  what was lost. The number is how many of the module's parameters are not trained.
- *refused*: odtc, or PyTorch's exporter, does not take it, and says why.

Dropout is at 0 here, as its masks are drawn by other generators. Of each cell that trains, the
exported file was run and compared with `evaluate`. A run may fill some cells, and keeps the others.
The last one:

<!-- figures: ways_in -->
{{age}}
<!-- end of figures -->

"""


def page(cells: Mapping[tuple[str, str], Cell]) -> str:
    """The page as text."""
    heads = [title for title, _ in WAYS.values()]
    rows = [["family", *heads], ["---"] * (len(heads) + 1)]
    rows += [[name, *(_text(cells[name, way]) for way in WAYS)] for name in FAMILIES]
    return (
        _HEAD.format(age=text_of("ways_in"))
        + "\n".join(f"| {' | '.join(row)} |" for row in rows)
        + "\n"
    )


def _text(cell: Cell) -> str:
    match cell.outcome:
        case Outcome.EQUAL:
            return f"equal, {cell.difference:.0e}"
        case Outcome.WARNED:
            return f"warned, {len(cell.lost)}"
        case _:
            return str(cell.outcome)
