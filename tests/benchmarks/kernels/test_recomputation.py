"""The benchmark of plans of recomputation: all ways on a drawn graph and on a small network."""

import json
from pathlib import Path

import pytest

from benchmarks.recomputation import __main__ as command_line
from benchmarks.recomputation.problems import layered
from benchmarks.recomputation.report import OURS, Curve


@pytest.mark.parametrize("name", ["layered-60", pytest.param("digits", marks=pytest.mark.slow)])
def test_all_ways_are_compared(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    files = {name: tmp_path / f"found.{name}" for name in ("json", "svg")}
    monkeypatch.setattr(
        "sys.argv",
        [
            *("recomputation", "--networks", name, "--shares", "0.8,0.5"),
            *("--json", str(files["json"]), "--picture", str(files["svg"])),
        ],
    )
    assert command_line.main() == 0
    found = json.loads(files["json"].read_text())["networks"]
    assert [item["name"] for item in found] == [name]
    for item in found:
        for share in item["shares"]:
            ours = share["times"][OURS]
            assert ours is None or share["least"] <= ours + 1e-9
            known = [time for time in share["times"].values() if time is not None]
            assert ours is None or ours == min(known)
    assert name in capsys.readouterr().out
    assert files["svg"].read_text().startswith("<?xml")


def test_drawn_graphs_are_the_same_each_time() -> None:
    assert layered(100) == layered(100)
    assert len(layered(100).seconds) == 100


def test_what_is_no_network_is_refused(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["recomputation", "--networks", "layered-few"])
    with pytest.raises(SystemExit):
        command_line.main()
    assert "there is no network 'layered-few'" in capsys.readouterr().err


def test_a_curve_tells_the_least_time_within_a_limit() -> None:
    curve = Curve("one", [(100, 1.0), (60, 1.5), (50, 2.0)])
    assert curve.at(100) == 1.0
    assert curve.at(70) == 1.5
    assert curve.at(10) is None
