"""What is measured is kept with what is said of it, and not measured again."""

import json
import re

import pytest

from benchmarks.pages.result import Result
from benchmarks.results import __main__ as command
from benchmarks.results.keeping import joined
from benchmarks.results.place import Place
from benchmarks.results.table import Kind, Row
from odtc.comparison.measures.measure import commit
from odtc.core.disk.locks import take_lock
from tests.benchmarks.results.clone import asked, committed, git, measured, tiny


def test_what_is_measured_is_kept_and_not_measured_again(place: Place, capsys) -> None:
    rows = [tiny("a"), tiny("b", "b0", "b1"), Row("g", by_hand="needs a GPU")]
    assert measured(place, rows) == 0
    assert asked(place) == ["a", "b0", "b1"]
    assert (place.root / "README.md").read_text() == "a\nb0\nb1\n"
    said = json.loads((place.results / "b.json").read_text())
    assert said["rows"] == [{"what": "b0"}, {"what": "b1", "run": 1}]
    assert said["by"] == {"b0": 1, "b1": 1}
    assert {run["commit"] for run in said["runs"]} == {place.commit}
    assert all(0 <= run["busy"] <= 1 for run in said["runs"])
    assert said["runs"][0]["minutes"] >= 0
    assert "not measured here, as --list says why: g" in capsys.readouterr().err
    # Neither results that wait for a commit nor that commit make others of them.
    assert measured(place, rows) == 0
    committed(place.root)
    assert measured(place, rows) == 0
    assert asked(place) == ["a", "b0", "b1"]
    assert "2 files are of this commit and machine already" in capsys.readouterr().err
    (place.root / "kernel.py").write_text("faster")
    committed(place.root)
    assert measured(place, rows, "--only", "a") == 0
    assert asked(place) == ["a", "b0", "b1", "a"]
    assert "  a.json, 1 rows, in 0.0 min\n" in capsys.readouterr().err
    fewer = [tiny("b", "b0")]
    assert measured(place, fewer) == 0
    assert "; before there were 2 rows: look at what its page says\n" in capsys.readouterr().err


def test_what_was_measured_beside_other_programs_is_named_and_measured_again(
    place: Place, capsys
) -> None:
    row, path = tiny("a"), place.results / "a.json"
    assert measured(place, [row]) == 0
    said = json.loads(path.read_text())
    said["runs"][0]["busy"] = 0.5
    path.write_text(json.dumps(said))
    assert measured(place, [row], "--list") == 0
    assert "this commit, beside other programs, 50%" in capsys.readouterr().out
    assert measured(place, [row]) == 0
    mended = "a: beside other programs, 50%; on an idle machine, --again --only a mends that"
    assert mended in capsys.readouterr().err
    assert measured(place, [row], "--again", "--only", "a") == 0
    assert asked(place) == ["a", "a"]


def test_what_is_counted_does_not_depend_on_other_programs(place: Place) -> None:
    assert measured(place, [Row("a", ["python -m tiny a"], 1, is_timed=False)]) == 0
    (run,) = json.loads((place.results / "a.json").read_text())["runs"]
    assert "busy" not in run


def test_pages_that_cannot_be_written_are_told_before_hours_of_work(place: Place, capsys) -> None:
    said = {"runs": [{"date": "2026-01-01", "commit": "0"}], "rows": [{"what": "breaks-a-page"}]}
    (place.results / "b.json").write_text(json.dumps(said))
    with pytest.raises(SystemExit):
        measured(place, [tiny("a")])
    assert "before anything was measured: pages cannot be written" in capsys.readouterr().err
    assert not asked(place)


def test_one_measures_at_a_time_in_a_clone(place: Place, tmp_path_factory, capsys) -> None:
    place.logs.mkdir(parents=True)
    with (place.logs / "lock").open("w") as lock:
        take_lock(lock.fileno())
        with pytest.raises(SystemExit):
            measured(place, [tiny("a")])
    assert "another one measures in" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([], [tiny("a")], Place(tmp_path_factory.mktemp("no clone")))
    assert "is no clone that git knows" in capsys.readouterr().err


def test_rows_of_a_suite_are_kept_with_what_is_said_of_them(place: Place) -> None:
    row = tiny("s", "one", "two", kind=Kind.SUITE)
    assert measured(place, [row]) == 0
    lines = [*map(json.loads, (place.results / "s.jsonl").read_text().splitlines())]
    assert [each.get("what") for each in lines] == [None, "one", "two"]
    (run,) = json.loads(place.index.read_text())["runs"]
    assert run["file"] == "s.jsonl"
    assert run["commit"] == place.commit
    assert run["date"] == "2026-01-03"
    assert run["command"] == "python -m tiny one"
    assert run["conditions"] == ", then `python -m tiny two`"
    assert Place(place.root).age(row).is_current


@pytest.mark.parametrize(
    ("changed", "command", "is_current"),
    [
        ("tests/a.py", "one", True),
        ("backends/gpu/a.py", "one", True),
        ("runtime_rpc/native/gpu/a.c", "one", True),
        ("backends/a.py", "one", False),
        ("tests/a.py", "one -m tests.a", False),
    ],
)
def test_what_decides_no_figure_makes_none_old(
    place: Place, changed: str, command: str, is_current: bool
) -> None:
    assert measured(place, [tiny("s", "one", kind=Kind.SUITE)]) == 0
    path = place.root / changed
    path.parent.mkdir(parents=True)
    path.write_text("other")
    committed(place.root)
    assert Place(place.root).age(tiny("s", command, kind=Kind.SUITE)).is_current is is_current


def test_runs_come_together() -> None:
    one = Result([{"date": "1"}], [{"a": 1}], {"m": {"x": 1}, "n": 1})
    two = Result([{"date": "2"}], [{"a": 2}], {"m": {"y": 2}, "n": 2})
    assert joined([one]) == {"runs": [{"date": "1"}], "rows": [{"a": 1}], "m": {"x": 1}, "n": 1}
    assert joined([one, two]) == {
        "runs": [{"date": "1"}, {"date": "2"}],
        "rows": [{"a": 1}, {"a": 2, "run": 1}],
        "m": {"x": 1, "y": 2},
        "n": 2,
    }


def test_pages_and_results_are_no_part_of_a_commit_that_is_measured(place: Place) -> None:
    clean = commit(place.root)
    assert re.fullmatch(r"[0-9a-f]{12}", clean)
    (place.root / "README.md").write_text("other")
    (place.results / "x.json").write_text("{}")
    git(place.root, "add", "--all")
    assert commit(place.root) == clean
    (place.root / "tiny.py").write_text("other")
    assert commit(place.root) == f"{clean}-dirty"
    assert commit(place.root / "docs") == ""
