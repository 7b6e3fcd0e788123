"""The benchmark of Winograd: a row for each shape and direction, as JSON and as a picture."""

import json
from pathlib import Path

import pytest

from benchmarks import winograd


def test_a_shape_in_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(winograd.SHAPES, "small", (16, 16, 12))
    file, picture = tmp_path / "w.json", tmp_path / "w.svg"
    options = ["--shapes", "small", "--batch", "1", "--rounds", "3"]
    argv = ["winograd", *options, "--json", str(file), "--picture", str(picture)]
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    assert winograd.main() == 0
    rows = json.loads(file.read_text())["convolutions"]
    assert [(row["name"], row["family"]) for row in rows] == [
        ("small", "forward"),
        ("small", "gradient"),
    ]
    assert all(len(row["direct"]) == len(row["winograd"]) == 3 for row in rows)
    assert "small gradient" in picture.read_text()
