"""The least arena of a network is that of its smallest plan."""

import json
from pathlib import Path

from benchmarks.budget.least import main


def test_a_small_network(tmp_path: Path) -> None:
    figures = tmp_path / "least.json"
    words = ["--networks", "lenet", "--json", str(tmp_path / "raw.json"), "--figures", str(figures)]
    assert main(words) == 0
    (row,) = json.loads(figures.read_text())["rows"]
    assert row["network"] == "lenet"
    assert 0 < row["least_mb"] <= row["arena_mb"]
    assert 0.1 < row["weights_mb"] < 1
