"""Each file of results has commands that write it, which take their arguments."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks.pages.result import RESULTS
from benchmarks.pages.suite_rows import SUITES
from benchmarks.results.table import ROWS, Kind, Row, spelled, threads, words_of
from odtc.cli.main import build_parser
from odtc.comparison.suite import find_suite


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
            assert args.threads == {"readme": [1], "tx2_64": [8]}.get(row.name, [1, 2, 4, 8])
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
    assert words_of("python -m x --threads MOST_THREADS", "py", 4)[-1] == "4"
    assert "THREADS" not in spelled("THREADS EACH_THREADS MOST_THREADS")
