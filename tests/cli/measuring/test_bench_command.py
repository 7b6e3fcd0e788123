"""`odtc bench`: suites, and one that is measured."""

from pathlib import Path

import pytest

from benchmarks.step_time.cases import names
from odtc.cli.main import main
from odtc.comparison.peers.torch_source import callable_of
from odtc.comparison.suite import find_suite
from odtc.core.errors import ExitCode
from odtc.core.options.byte_sizes import parse_bytes
from odtc.report.model_sections import published

ROOT = Path(__file__).parents[3]
SUITE = """
title = "Digits"
make = ["-m", "tests.comparison.make_digits"]
root = "{root}"
batches = [4, 8]
models = ["Digits", "Frozen"]
memory_limit = "8GB"

[[published]]
title = "A table of <somebody>"
source = "somewhere"
heads = ["model", "ms"]
rows = [["digits", 1.5]]
"""


@pytest.mark.parametrize(
    ("name", "count"), [("tx2", 16), ("emdl21", 5), ("zoo", 13), ("readme", 8)]
)
def test_suites_name_models_that_there_are(name: str, count: int) -> None:
    suite = find_suite(name)
    assert set(suite.models) <= set(names())
    assert len(set(suite.models)) == len(suite.models) == count
    for table in suite.published:
        assert {len(row) for row in table["rows"]} == {len(table["heads"])}
    page = published([{"suite": {"published": suite.published}}])
    assert page.count("<table") == len(suite.published)


def test_the_tx2_suite_has_the_ten_that_trained_and_the_six_that_did_not() -> None:
    suite = find_suite("tx2")
    assert list(suite.batches) == [1, 4, 16, 64]
    assert parse_bytes(suite.memory_limit, "") == 8_000_000_000
    table = suite.published[0]["rows"]
    assert [row[1] for row in table] == list(suite.models)
    assert [row[3] for row in table] == ["yes"] * 10 + ["no"] * 6


def test_modules_of_the_suites_are_found_by_name() -> None:
    assert callable_of("benchmarks.suites.modules:lenet")().training


def test_a_suite_is_measured_once_and_goes_on_the_page(here: Path, run_json, capsys) -> None:
    Path("own.toml").write_text(SUITE.format(root=ROOT))
    argv = ["bench", "--suite", "own.toml", "--models", "Digits", "--batch", "4"]
    argv += ["--with", "pytorch", "--steps", "2"]
    found = run_json(*argv)["rows"]
    assert [(row["setting"]["model"], row["engine"]) for row in found] == [
        ("Digits", "odtc"),
        ("Digits", "pytorch"),
    ]
    assert {row["outcome"] for row in found} == {"trained"}
    assert {row["lr"] for row in found} == {0.01}
    assert run_json(*argv)["rows"] == found
    assert main(["report", "own.jsonl"]) == ExitCode.OK
    page = Path("report.html").read_text()
    assert "A table of &lt;somebody&gt;" in page
    assert "8,000,000,000 bytes" in page


@pytest.mark.slow
def test_a_model_of_a_paper_is_measured(here: Path, run_json) -> None:
    argv = ["bench", "--suite", "emdl21", "--models", "lenet", "--batch", "2", "--steps", "2"]
    rows = run_json(*argv)["rows"]
    assert [(row["engine"], row["outcome"]) for row in rows] == [
        ("odtc", "trained"),
        ("onnxruntime-training", "trained"),
        ("pytorch", "trained"),
    ]
