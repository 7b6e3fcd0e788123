"""Figures on pages are those of their result files, and each stands once."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.pages import kernels
from benchmarks.pages.__main__ import RESULTS_PAGE, pages
from benchmarks.pages.kernels import ROOT, changed_since, note_changes
from benchmarks.pages.markers import MarksError, filled, outside, parts
from benchmarks.pages.measured import measured, when_text
from benchmarks.pages.parts import FILES, PARTS
from benchmarks.pages.result import RESULTS, Result, path_of, read_result
from benchmarks.pages.suite_rows import SUITES, not_in_suites, settings
from benchmarks.pages.text import listed, ratio, short, table

# Written as a whole from files of their own, by other commands.
GENERATED = {"results", "ways_in", "published", "operators", "conformance", "cli", "api"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A cell that is a figure: a fraction, perhaps with its spread, a number with a unit, or one of
# several thousands.
_FIGURE = re.compile(
    r"\d[\d,]*\.\d+( \(.*\))?( ?(%|ms|s|MB|GB/s|times))?|\d[\d,]* ?(%|ms|s|MB)|\d{1,3}(,\d{3})+"
)

_CONSTANT = re.compile(r"\| `[A-Z_]+` \|")


def typed(page: str) -> list[str]:
    """Rows of tables that hold figures, and stand in no part; a constant of the code is none."""
    rows = (line for line in outside(page).splitlines() if line.startswith("|"))
    return [
        row
        for row in rows
        if any(_FIGURE.fullmatch(cell.strip()) for cell in row.split("|"))
        and not _CONSTANT.match(row)
    ]


def test_the_pages_are_those_of_the_files() -> None:
    for path, text in pages():
        assert path.read_text("utf-8") == text, f"{path.name}: run python -m benchmarks.pages"


def test_each_part_stands_once() -> None:
    found = Counter(name for page in PAGES for name, _ in parts(page.read_text("utf-8")))
    assert found == Counter([*PARTS])


def test_each_file_of_figures_is_on_a_page() -> None:
    others = {path_of(name) for name in ("published", "ways_in")}
    assert {path_of(name) for name in FILES} == {*RESULTS.glob("*/*.json"), *others}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_table_of_figures_is_typed(page: Path) -> None:
    # Pages of design tell what was tried on a day.
    if page.stem not in GENERATED and "design" not in page.parts:
        assert not typed(page.read_text("utf-8"))


def test_a_typed_table_is_found() -> None:
    page = "| a | b |\n|---|---|\n| lenet | 1.9 |\n| x | 5 % |\n| y | 1,024 |\n| opset | 9 |\n"
    assert typed(page) == ["| lenet | 1.9 |", "| x | 5 % |", "| y | 1,024 |"]
    assert not typed(f"<!-- figures: x -->\n{page}<!-- end of figures -->\n")


@pytest.mark.parametrize("name", FILES)
def test_each_run_says_when_and_of_which_commit(name: str) -> None:
    result = read_result(name)
    for run in result.runs:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
        assert re.fullmatch(r"[0-9a-f]{7,12}(-dirty)?", run["commit"])
        assert run.get("command") or run.get("typed")
    assert all(0 <= row.get("run", 0) < len(result.runs) for row in result.rows)


def test_rows_of_suites_are_of_the_commit_and_the_day_that_are_said() -> None:
    for run in read_result(SUITES).runs:
        file = RESULTS / run["file"]
        if file.suffix == ".jsonl":
            head, *rows = map(json.loads, file.read_text("utf-8").splitlines())
            (said,) = head.values()
            assert said["commit"].startswith(run["commit"])
            # A suite takes hours: its day is that of its end.
            assert (
                max((row["began"][:10] for row in rows if "began" in row), default=run["date"])
                == (run["date"])
            )


def test_one_setting_has_one_time() -> None:
    """docs/performance.md leaves out what docs/results.md has."""
    times = read_result("performance/step_time").rows
    known = {(each.model, each.batch, each.threads) for each in settings("znver5")}
    again = {row["model"] for row in times if (row["model"], row["batch"], row["threads"]) in known}
    assert "mobilenet_v2" in again
    shown = [line.split("|")[1:4] for line in PARTS["performance/step_time"]() if "|" in line]
    assert not {(row[0].strip(), row[2].strip()) for row in shown} & {(name, "1") for name in again}


def test_a_setting_of_another_kind_of_core_is_another() -> None:
    times = read_result("performance/step_time")
    core = times.runs[0]["machine"]["core"]
    elsewhere = Result([{"machine": {"core": "znver9"}}], times.rows, {})
    assert len(not_in_suites(times)) < len(times.rows)
    assert not_in_suites(elsewhere) == times.rows
    assert settings(core) > settings("znver4") > settings("znver9") == set()


def test_titles_of_results_are_told_apart() -> None:
    titles = re.findall(r"^## (.*)$", RESULTS_PAGE.read_text("utf-8"), re.M)
    assert len(titles) == len(set(titles)) > 5


def test_marks_come_in_pairs() -> None:
    page = "<!-- figures: a/b -->\nold\n<!-- end of figures -->\nx\n"
    assert list(parts(page)) == [("a/b", "old\n")]
    assert filled(page, str.upper) == "<!-- figures: a/b -->\nA/B\n<!-- end of figures -->\nx\n"
    assert outside(page) == "\nx\n"
    for wrong in (page + "<!-- figures: c -->\n", "<!-- end of figures -->\n", page[:30] + page):
        with pytest.raises(MarksError):
            list(parts(wrong))


def run_of(**more) -> dict:
    machine = {"cpu": "a CPU", "instructions": "AVX2", "cores": 1}
    return {"date": "2026-01-02", "commit": "abc1234", "machine": machine, **more}


def test_the_last_line_says_what_is_older_than_the_kernels() -> None:
    first = run_of(command="make x", threads=2, conditions="idle")
    line = measured(Result([first], [], {}), str)
    said = "Measured by `make x` on a CPU with AVX2, 1 core, 2 threads, idle; 2026-01-02, commit"
    assert line == f"{said} abc1234."
    busy = {**first, "busy": 0.25}
    assert ", idle, other programs kept 25% of the cores busy;" in measured(
        Result([busy], [], {}), str
    )
    assert measured(Result([{**first, "busy": 0.1}], [], {}), str) == line
    old = {**first, "kernels_changed": True}
    assert measured(Result([old], [], {}), str).endswith("abc1234; kernels have changed since.")
    again = run_of(command="make x", commit="def5678", typed=True, kernels_changed=True)
    rows = [{"model": "a"}, {"model": "b", "run": 1}]
    line = measured(Result([first, again], rows, {}), lambda row: row["model"])
    assert line.endswith(
        " Of other runs: b (on this page since 2026-01-02, commit def5678; kernels have changed "
        "since)."
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a kernel."""
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "a.py").write_text("1")
    git(tmp_path, "init", "--quiet")
    committed(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", str(folder), *name, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def committed(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "x")
    return git(folder, "rev-parse", "--short", "HEAD")


def test_changes_of_kernels_are_those_that_git_has(clone: Path, tmp_path_factory) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "README.md").write_text("x")
    second = committed(clone)
    assert changed_since(first, clone) is False
    (clone / "passes" / "a.py").write_text("2")
    committed(clone)
    assert changed_since(first, clone) is True
    assert changed_since(f"{second}-dirty", clone) is True
    assert changed_since("0123456", clone) is None
    assert changed_since(first, tmp_path_factory.mktemp("no clone")) is None


def test_a_gpu_of_its_own_changes_no_kernel_of_a_cpu(clone: Path) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "backends" / "gpu").mkdir(parents=True)
    (clone / "backends" / "gpu" / "a.py").write_text("1")
    committed(clone)
    found = {}
    for name in ("step_time", "gpu_steps", "tuning"):
        file = clone / f"{name}.json"
        file.write_text(json.dumps({"runs": [run_of() | {"commit": first}], "rows": []}))
        note_changes(file, clone)
        found[name] = json.loads(file.read_text())["runs"][0]["kernels_changed"]
    assert found == {"step_time": False, "gpu_steps": True, "tuning": True}
    paths = [each.removeprefix(":(exclude)") for each in (*kernels.OF_GPUS, *kernels.OF_PLANS)]
    assert all((ROOT / path).exists() for path in paths)


def test_sources_that_compile_the_same_steps_change_no_kernel(clone: Path) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "passes" / "a.py").write_text("2")
    second = committed(clone)
    steps = clone / kernels.STEPS.relative_to(ROOT)
    steps.parent.mkdir(parents=True)
    files = [clone / f"{name}.json" for name in ("step_time", "gpu_steps", "plan_time", "cores")]
    for hashes, expected in (
        (("aa", "aa"), [False, True, True, True]),
        (("aa", "bb"), [True] * 4),
        (("aa",), [True] * 4),
    ):
        commits = zip((first, second), hashes, strict=False)
        known = [{"commit": each, "target": "host-cpu", "hash": hashed} for each, hashed in commits]
        steps.write_text(json.dumps({"commits": known}))
        for file in files:
            file.write_text(json.dumps({"runs": [run_of() | {"commit": first}], "rows": []}))
            note_changes(file, clone)
        found = [json.loads(file.read_text())["runs"][0]["kernels_changed"] for file in files]
        assert found == expected


@pytest.mark.parametrize(
    ("file", "run", "row"),
    [
        ("budgets/batch_8.json", {}, {"network": "bert_base", "budget": "50%"}),
        ("budgets/least.json", {}, {"network": "bert_base"}),
        ("language_models/steps.json", {}, {"model": "gemma3_270m", "base": "int4 in half"}),
        ("suites.json", {"command": "odtc bench --models bert_base --budget 4GB"}, None),
        ("suites.json", {"command": "odtc bench --suite tx2 --budget 4GB"}, None),
    ],
)
@pytest.mark.parametrize("hashes", [{"hash": "aa"}, {"hash": "aa", kernels.PLANS_HASH: "bb"}])
def test_plans_of_attention_have_a_hash_of_their_own(
    file: str, run: dict[str, str], row: dict[str, str] | None, hashes: dict, clone: Path
) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "passes" / "a.py").write_text("2")
    second = committed(clone)
    steps = clone / kernels.STEPS.relative_to(ROOT)
    steps.parent.mkdir(parents=True)
    known = [{"commit": first, kernels.PLANS_HASH: "cc", "hash": "aa"}]
    known.append({"commit": second, **hashes})
    steps.write_text(json.dumps({"commits": [{"target": "host-cpu", **each} for each in known]}))
    runs = [run_of() | {"commit": first} | run] * 2
    rows = [] if row is None else [row, {"network": "bert_base", "budget": "none", "run": 1}]
    found = kernels.changes({"runs": runs, "rows": rows}, clone / file, clone)
    # That of the run without a budget is of the same steps.
    assert found == [True, row is None]


def test_rows_may_have_an_age_of_their_own(clone: Path) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "passes" / "a.py").write_text("2")
    second = committed(clone)
    apart = run_of(commit=first, rows="bert_base within 4GB", why="it trains longer")
    runs = [run_of(commit=first, command="odtc bench --suite tx2 --budget 4GB", apart=[apart])]
    steps = clone / kernels.STEPS.relative_to(ROOT)
    steps.parent.mkdir(parents=True)
    known = [
        {"commit": commit, "target": "host-cpu", "hash": "aa", kernels.PLANS_HASH: plans}
        for commit, plans in ((first, "bb"), (second, "cc"))
    ]
    steps.write_text(json.dumps({"commits": known}))
    file = clone / "suites.json"
    file.write_text(json.dumps({"runs": runs, "rows": []}))
    # Of the others' steps only the hash of all has to agree.
    assert kernels.changes({"runs": runs}, file, clone) == [False, True]
    for rows in ("bert_base at batch 4", "resnet18 within 4GB"):
        apart["rows"] = rows
        assert kernels.changes({"runs": runs}, file, clone) == [True, False], rows
    del runs[0]["apart"]
    assert kernels.changes({"runs": runs}, file, clone) == [True]
    # What is known of another kind of core says nothing.
    runs = [run_of(commit=first, machine={"core": core}) for core in ("znver4", "znver5")]
    steps.write_text(steps.read_text().replace("host-cpu", "host-cpu{mcpu=znver5}"))
    assert kernels.changes({"runs": runs}, clone / "step_time.json", clone) == [True, False]
    steps.write_text(json.dumps({"commits": known}))

    (clone / "passes" / "a.py").write_text("3")
    committed(clone)
    assert note_changes(file, clone)
    (run,) = json.loads(file.read_text())["runs"]
    assert run["kernels_changed"]
    assert run["apart"][0]["kernels_changed"]
    date = run["date"]
    assert when_text(run) == (
        f"{date}, commit {first}; kernels have changed since; bert_base within 4GB: {date}, commit "
        f"{first}; kernels have changed since (it trains longer)"
    )


def test_what_plans_are_made_by_is_no_part_of_a_gpus_step(clone: Path) -> None:
    first = git(clone, "rev-parse", "--short", "HEAD")
    (clone / "passes" / "checkpoint").mkdir()
    (clone / "passes" / "checkpoint" / "a.py").write_text("1")
    committed(clone)
    said = {"runs": [run_of() | {"commit": first}]}
    names = ("gpu_steps", "cores", "step_time")
    found = [kernels.changes(said, clone / f"{name}.json", clone) for name in names]
    assert found == [[False], [False], [True]]


def test_what_git_does_not_know_stays(clone: Path) -> None:
    known = git(clone, "rev-parse", "--short", "HEAD")
    file, runs = clone / "x.json", [run_of(commit="0123456", kernels_changed=True), run_of()]
    runs[1]["commit"] = known
    file.write_text(json.dumps({"runs": runs, "rows": []}))
    assert note_changes(file, clone)
    found = json.loads(file.read_text())["runs"]
    assert [run["kernels_changed"] for run in found] == [True, False]
    assert not note_changes(file, clone)
    assert all((ROOT / folder).is_dir() for folder in kernels.SOURCES)


def test_figures_are_samples_or_their_median() -> None:
    assert ratio([1.0, 2.0, 3.0]) == ratio({"median": 2, "lower": 1.5, "upper": 2.5})
    assert ratio(1) == "1.00"
    assert not ratio(None)
    assert [short(each) for each in (0.32, 45, 2006)] == ["0.320", "45.0", "2,006"]
    assert [listed([*each]) for each in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert table(("a", "b"), [("x", "1")]) == ["| a | b |", "|---|---:|", "| x | 1 |"]
