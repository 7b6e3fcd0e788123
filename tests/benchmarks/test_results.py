"""Figures of all pages by one command: what is measured, what is not again, and what goes wrong."""

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.pages.result import RESULTS, Result
from benchmarks.pages.suites import SUITES
from benchmarks.results import __main__ as command
from benchmarks.results.choice import ChoiceError, Item, fitting, items_of, named, to_measure
from benchmarks.results.keeping import joined
from benchmarks.results.place import Age, Place
from benchmarks.results.running import run_command, share_of
from benchmarks.results.table import ROWS, Kind, Row, spelled, threads, words_of
from odtc.cli.main import build_parser
from odtc.comparison.measures.measure import commit, machine
from odtc.comparison.suite import find_suite
from odtc.core.disk.locks import take_lock

# Writes a file of figures, or of rows, of the commit and the machine that it runs on.
TINY = """
import json, pathlib, subprocess, sys, time

what, option, path = sys.argv[-3:]
head = ["git", "rev-parse", "--short=12", "HEAD"]
commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
machine = json.loads(pathlib.Path("machine.json").read_text())
with open("asked.txt", "a") as asked:
    print(what, file=asked)
if what == "fails":
    print("no such network")
    sys.exit(3)
if what == "hangs":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path("hanging").touch()
    time.sleep(600)
run = {"date": "2026-01-02", "commit": commit, "machine": machine, "command": "x"}
if what == "writes-nothing":
    sys.exit(0)
if what == "changes-sources":
    pathlib.Path("tiny.py").write_text("changed")
    run["commit"] += "-dirty"
if option == "--figures":
    said = {"runs": [run], "rows": [{"what": what}], "by": {what: 1}}
    pathlib.Path(path).write_text(json.dumps(said))
else:
    lines = [] if pathlib.Path(path).exists() else [{"comparison": run}]
    lines += [{"what": what, "began": "2026-01-03T23:59:00+00:00", "busy": [0, 0.5]}]
    with open(path, "a") as rows:
        rows.writelines(json.dumps(each) + "\\n" for each in lines)
    sys.exit(14)
"""
# Stands for `benchmarks.pages`: a page of all rows, and an error behind some of it.
PAGES = """
import json, pathlib
rows = []
for path in sorted(pathlib.Path("docs/results").glob("*.json")):
    rows += [row["what"] for row in json.loads(path.read_text())["rows"]]
    pathlib.Path("README.md").write_text("".join(f"{row}\\n" for row in rows))
assert "breaks-a-page" not in rows
"""
IGNORED = "build/\nlogs/\nasked.txt\nhanging\n__pycache__/\n"


def tiny(name: str, *whats: str, kind: Kind = Kind.FIGURES) -> Row:
    return Row(name, [f"python -m tiny {what}" for what in whats or (name,)], 1, kind=kind)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A clone that is measured in no time."""
    files = {
        "tiny.py": TINY,
        "machine.json": json.dumps(machine()),
        "benchmarks/__init__.py": "",
        "benchmarks/pages.py": PAGES,
        ".gitignore": IGNORED,
        "README.md": "",
        f"docs/results/{SUITES}.json": json.dumps({"runs": [{"file": "s.jsonl"}], "rows": []}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    committed(tmp_path)
    return Place(tmp_path)


def git(folder: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(folder), *name, *words], check=True, capture_output=True)


def committed(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "x")


def asked(place: Place) -> list[str]:
    """What was measured, in its order."""
    path = place.root / "asked.txt"
    return path.read_text().split() if path.exists() else []


def measured(place: Place, rows: list[Row], *words: str) -> int:
    return command.main(words, rows, Place(place.root))


def test_each_file_of_results_has_a_row_that_says_what_writes_it() -> None:
    files = {f"{path.relative_to(RESULTS)}" for path in RESULTS.rglob("*.json*")}
    assert sorted(row.file for row in ROWS) == sorted(files - {f"{SUITES}.json"})
    for row in ROWS:
        assert bool(row.by_hand) != bool(row.commands), row.name
        assert bool(row.minutes) == bool(row.commands), row.name


def test_comparisons_have_threads_and_rounds() -> None:
    options = set()
    for row in ROWS:
        for each in row.commands if row.kind is Kind.SUITE else ():
            words = words_of(each, "python", 8)[3:]
            args = build_parser().parse_args([*words, "-o", "x.jsonl"])
            suite = find_suite(args.suite)
            assert set(filter(None, args.models.split(","))) <= set(suite.models)
            assert args.threads == [1, 2, 4, 8]
            assert args.rounds == 3
            options.add((row.name, args.steps))
    # Commands of a suite add to one file, whose rows must be of one kind.
    assert len(options) == len({name for name, _ in options})


class _ParsedError(Exception):
    """Raised once arguments are read, in place of hours of work."""


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.kind is Kind.FIGURES], ids=lambda r: r.name
)
def test_commands_take_their_arguments(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    read = argparse.ArgumentParser.parse_args

    def parse(parser: argparse.ArgumentParser, args=None, namespace=None) -> None:
        raise _ParsedError(read(parser, args, namespace))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for each in row.commands:
        _, _, name, *words = words_of(each, "python", 8)
        module = importlib.import_module(name)
        if hasattr(module, "__path__"):
            module = importlib.import_module(f"{name}.__main__")
        monkeypatch.setattr(sys, "argv", [name, *words, "--figures", "x.json"])
        with pytest.raises(_ParsedError) as parsed:
            module.main()
        assert parsed.value.args[0].figures == Path("x.json")


def test_entries_of_suites_have_their_rows() -> None:
    runs = json.loads((RESULTS / f"{SUITES}.json").read_text("utf-8"))["runs"]
    assert {row.file for row in ROWS if row.kind is Kind.SUITE} <= {run["file"] for run in runs}


def test_a_comparison_has_as_many_threads_as_there_are_cores() -> None:
    assert [threads(each) for each in (1, 2, 6, 64)] == [[1], [1, 2], [1, 2, 4], [1, 2, 4, 8]]
    assert words_of("odtc bench -t THREADS", "py", 4) == [
        "py",
        "-m",
        "odtc",
        "bench",
        "-t",
        "1,2,4",
    ]
    assert words_of("python -m x EACH_THREADS", "py", 2) == ["py", "-m", "x", "1", "2"]
    assert "THREADS" not in spelled("THREADS EACH_THREADS")


def item(name: str, date: str = "", minutes: float = 1, **more) -> Item:
    age = Age(date, is_current=more.pop("is_current", False), minutes=more.pop("took", None))
    return Item(Row(name, ["python -m x"], minutes, **more), age)


def test_the_readme_comes_first_then_the_oldest(place: Place) -> None:
    for name, date in (("a", "2026-01-03"), ("b", "2026-01-02"), ("tx2", "2026-01-04")):
        run = {"date": date, "commit": "1234567"}
        (place.results / f"{name}.json").write_text(json.dumps({"runs": [run], "rows": []}))
    by_hand = Row("c", by_hand="needs a GPU")
    found = items_of([by_hand, tiny("a"), tiny("b"), tiny("d"), tiny("tx2")], place)
    assert [each.row.name for each in found] == ["tx2", "d", "b", "a", "c"]
    assert not any(each.age.is_current for each in found)
    assert found[2].age.kernels_changed is None
    assert [each.row.name for each in to_measure(found)] == ["tx2", "d", "b", "a"]
    assert [each.row.name for each in named(found, ["a", "d"])] == ["d", "a"]
    with pytest.raises(ChoiceError, match="no result 'e'"):
        named(found, ["e"])
    with pytest.raises(ChoiceError, match="c is not measured here: needs a GPU"):
        named(found, ["c"])


def test_as_many_as_fit_are_chosen_by_the_time_that_they_took() -> None:
    found = [item("a", minutes=20), item("b", minutes=30), item("c", minutes=99, took=15)]
    assert [each.row.name for each in fitting(found, 40)] == ["a", "c"]
    assert not fitting(found, 10)
    assert to_measure([item("a", is_current=True)]) == []


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


def test_one_that_fails_costs_no_other_and_is_named(place: Place, capsys) -> None:
    rows = [tiny("fails"), tiny("writes-nothing"), tiny("z")]
    assert measured(place, rows) == 1
    said = capsys.readouterr().err
    log = place.logs / "fails.log"
    assert f"failed: fails: its command ended with 3; what it said is in {log}" in said
    assert "failed: writes-nothing: its command ended well, and wrote nothing" in said
    assert "no such network" in log.read_text()
    assert [path.name for path in place.results.glob("*.json")] == ["z.json"]
    assert measured(place, rows) == 1
    assert asked(place) == ["fails", "writes-nothing", "z", "fails", "writes-nothing"]


def test_what_breaks_a_page_is_put_back_with_the_pages(place: Place, capsys) -> None:
    old = json.dumps({"runs": [{"date": "2026-01-01", "commit": "0"}], "rows": [{"what": "old"}]})
    (place.results / "a.json").write_text(old)
    committed(place.root)
    rows = [tiny("a", "breaks-a-page"), tiny("b", "breaks-a-page"), tiny("c")]
    assert measured(place, rows) == 1
    assert (
        "failed: a: pages cannot be written from what docs/results has" in capsys.readouterr().err
    )
    assert (place.results / "a.json").read_text() == old
    assert not (place.results / "b.json").exists()
    assert (place.root / "README.md").read_text() == "old\nc\n"


def test_figures_of_no_commit_are_refused(place: Place, capsys) -> None:
    assert measured(place, [tiny("changes-sources")]) == 1
    assert "sources changed while it ran" in capsys.readouterr().err
    assert not list(place.results.glob("*.json"))
    with pytest.raises(SystemExit) as ended:
        measured(place, [tiny("a")])
    assert ended.value.code == 2
    assert "1 file is not as in it: tiny.py" in capsys.readouterr().err
    git(place.root, "checkout", "tiny.py")
    (place.root / "README.md").write_text("a page may differ")
    assert measured(place, [tiny("a")]) == 0
    (place.root / "new.py").write_text("")
    with pytest.raises(SystemExit):
        measured(place, [tiny("a")])
    assert "new.py" in capsys.readouterr().err


def test_a_list_measures_nothing(place: Place, capsys) -> None:
    rows = [tiny("a"), tiny("b"), Row("g", by_hand="needs a GPU")]
    (place.root / "new.py").write_text("a list is of any tree")
    assert measured(place, rows, "--list", "--for", "1min") == 0
    said = capsys.readouterr().out
    assert re.search(r"a\.json +no file +unknown +1 +python -m tiny a", said)
    assert "1 file, about 0.0 hours to measure" in said
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
