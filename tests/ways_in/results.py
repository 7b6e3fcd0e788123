"""The cells of the table as JSON, beside the page that is made of them."""

import dataclasses
import json
from pathlib import Path

from benchmarks.output import about
from tests.ways_in.cell import Cell, Outcome

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "ways_in.json"
Cells = dict[tuple[str, str], Cell]


def read_cells(path: Path = RESULTS) -> Cells:
    """The cells by family and way; none where there is no file."""
    if not path.is_file():
        return {}
    return {
        (item.pop("family"), item.pop("way")): _cell(item)
        for item in json.loads(path.read_text(encoding="utf-8"))["cells"]
    }


def write_cells(cells: Cells, path: Path = RESULTS) -> None:
    """Writes them."""
    items = [
        {"family": family, "way": way, **dataclasses.asdict(cell)}
        for (family, way), cell in sorted(cells.items())
    ]
    said = {"runs": [about()], "cells": items}
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _cell(item: dict) -> Cell:
    lists = {key: tuple(item[key]) for key in ("lost", "extra", "said")}
    return Cell(**{**item, **lists, "outcome": Outcome(item["outcome"])})
