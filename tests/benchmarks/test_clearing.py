"""The benchmark of memory that the system clears, with little of it."""

import json
from pathlib import Path

from benchmarks.budget import clearing


def test_both_kinds_of_pages_are_written_in_turns(tmp_path: Path, monkeypatch, capsys) -> None:
    raw = tmp_path / "raw.json"
    options = ("--megabytes", "5", "--rounds", "3", "--json", str(raw))
    monkeypatch.setattr("sys.argv", ["clearing", *options])
    assert clearing.main() == 0
    rows = json.loads(raw.read_text())["pages"]
    assert [row["kind"] for row in rows] == ["huge", "4 KB"]
    assert all(len(row["new"]) == len(row["again"]) == 3 for row in rows)
    assert all(seconds > 0 for row in rows for seconds in (*row["new"], *row["again"]))
    printed = capsys.readouterr().out
    assert "4 KB" in printed
    assert "fallbacks" in printed
