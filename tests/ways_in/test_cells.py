"""Some cells of the table, and the page that is made of all of them."""

from pathlib import Path

import pytest

from tests.families import FAMILIES
from tests.fast import fast_if
from tests.ways_in.cell import Outcome, fill
from tests.ways_in.page import PAGE, page
from tests.ways_in.results import read_cells
from tests.ways_in.ways import WAYS

CELLS = [(name, way) for name in FAMILIES for way in WAYS]
# One of each way; whatever needs no compile is tested in tests/frontend.
FAST = [
    ("mlp", "from_torch"),
    ("mlp", "default"),
    ("mlp", "unoptimised"),
    ("mlp", "training"),
    ("detector", "from_torch"),
    ("vit", "default"),
]


@pytest.mark.parametrize("case", fast_if(lambda cell: cell in FAST, CELLS), ids="-".join)
def test_no_cell_is_silent(case: tuple[str, str], tmp_path: Path) -> None:
    name, way = case
    cell = fill(name, way, tmp_path)
    assert cell.outcome is not Outcome.SILENT, cell
    if way == "from_torch":
        assert cell.outcome is Outcome.EQUAL, cell


def test_the_page_is_made_of_its_results() -> None:
    cells = read_cells()
    assert cells.keys() == set(CELLS)
    assert not [key for key, cell in cells.items() if cell.outcome is Outcome.SILENT]
    assert PAGE.read_text(encoding="utf-8") == page(cells)
