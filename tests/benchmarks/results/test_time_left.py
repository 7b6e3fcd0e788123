"""A list, an end and a limit of time: what is finished stays, and what hangs is ended."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.results import __main__ as command
from benchmarks.results.place import Place
from benchmarks.results.running import run_command, share_of
from benchmarks.results.table import Kind, Row
from tests.benchmarks.results.clone import asked, measured, tiny


def test_a_list_measures_nothing(place: Place, capsys) -> None:
    rows = [tiny("a"), tiny("b"), Row("g", by_hand="needs a GPU")]
    (place.root / "new.py").write_text("a list is of any tree")
    assert measured(place, rows, "--list", "--for", "1min") == 0
    said = capsys.readouterr().out
    assert re.search(r"a\.json +no file +unknown +1 +python -m tiny a", said)
    assert "1 file, about 1 min to measure" in said
    assert not asked(place)
    assert measured(place, rows, "--list") == 0
    said = capsys.readouterr().out
    assert "2 files, about" in said
    assert "not here: needs a GPU" in said


def test_one_for_which_no_time_is_left_is_named(place: Place, capsys) -> None:
    rows = [tiny("a"), tiny("b")]
    assert measured(place, rows, "--for", "70s") == 0
    assert "no time for all of b" in capsys.readouterr().err
    assert asked(place) == ["a"]


def test_a_suite_that_does_not_fit_gets_the_time_that_is_left(
    place: Place, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("s", ["python -m tiny one", "python -m tiny hangs"], 99, kind=Kind.SUITE)
    monkeypatch.setattr(command, "_WORTH_IT", 1)
    assert measured(place, [row], "--for", "8s") == 0
    said = capsys.readouterr().err
    assert "no time for all of s" in said
    assert "  1 rows are there; the next run goes on with them" in said
    assert not (place.results / "s.jsonl").exists()
    row = tiny("s", "two", kind=Kind.SUITE)
    assert measured(place, [row]) == 0
    lines = [*map(json.loads, (place.results / "s.jsonl").read_text().splitlines())]
    assert [each.get("what") for each in lines] == [None, "one", "two"]
    (run,) = json.loads(place.index.read_text())["runs"]
    # What one part took is not what all takes.
    assert "minutes" not in run
    assert run["busy"] == 0.25


def test_the_end_of_it_ends_the_command_and_keeps_what_is_finished(place: Place) -> None:
    script = (
        "import sys; from pathlib import Path; from benchmarks.results.__main__ import main; "
        "from benchmarks.results.place import Place; from benchmarks.results.table import Row; "
        "rows = [Row(n, [f'python -m tiny {n}'], 1) for n in ('a', 'hangs', 'z')]; "
        f"sys.exit(main([], rows, Place(Path({str(place.root)!r}))))"
    )
    root = Path(command.__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", script], cwd=root)
    while not (place.root / "hanging").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert asked(place) == ["a", "hangs"]
    assert (place.root / "README.md").read_text() == "a\n"
    assert not _of_the_folder(place.root)


def _of_the_folder(folder: Path) -> list[str]:
    """Processes that run in it."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(each / "cwd") == str(folder):
                found.append((each / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
    how = run_command(words, tmp_path, tmp_path / "log", 0.5)
    assert how.status is None
    assert 0 <= how.busy <= 1
    assert run_command(["sh", "-c", "exit 5"], tmp_path, tmp_path / "log", 60).status == 5


def test_others_are_all_but_this_process_and_its_children() -> None:
    assert share_of((0, 0, 0), (10, 12, 8), 2) == pytest.approx(0.2)
    assert share_of((5, 5, 5), (6, 5, 6), 2) == 0
    assert share_of((0, 0, 0), (1, 3, 0), 2) == 1
