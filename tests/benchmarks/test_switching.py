"""The benchmark of changes between plans, on a small network."""

import json
from pathlib import Path

import pytest

from benchmarks.budget import switching
from benchmarks.budget.switching import Changes


def test_changes_are_timed_and_change_no_loss(tmp_path: Path, monkeypatch, capsys) -> None:
    files = {name: tmp_path / f"found.{name}" for name in ("json", "svg")}
    monkeypatch.setattr(
        "sys.argv",
        [
            *("switching", "--networks", "digits", "--batch", "16", "--rounds", "2"),
            *("--json", str(files["json"]), "--picture", str(files["svg"])),
        ],
    )
    assert switching.main() == 0
    plans = json.loads(files["json"].read_text())["plans"]
    assert len(plans) > 1
    for plan in plans:
        assert len(plan["changed"]) == len(plan["same"]) == 2 * (len(plans) - 1)
    assert "all losses of a network are the same" in capsys.readouterr().out
    assert files["svg"].read_text().startswith("<?xml")


def test_the_ratio_is_of_pairs() -> None:
    assert Changes("one", 1, [2.0, 3.0], [1.0, 3.0]).ratio.median == pytest.approx(1.5)
