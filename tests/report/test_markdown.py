"""`odtc report -o report.md`: the tables alone."""

import json
import re
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.report.material import ENGINES, MODELS, write_rows

SETTINGS = len(MODELS) * 2


@pytest.fixture
def text(tmp_path: Path) -> str:
    output = tmp_path / "report.md"
    assert (
        main(["report", str(write_rows(tmp_path / "rows.jsonl")), "-o", str(output)]) == ExitCode.OK
    )
    return output.read_text()


def tables(text: str) -> list[list[list[str]]]:
    """Cells of each table, the heads first."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    rows = [[re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()] for table in found]
    return [[list(map(str.strip, row)) for row in table] for table in rows]


def test_losses_come_first_and_only_losses(text: str) -> None:
    parts = text.split("### ")
    assert parts[1].startswith("Where odtc loses")
    lost = [line for line in parts[1].splitlines() if line.startswith("- ")]
    time = [line for line in lost if line.startswith("- time")]
    (line,) = time
    assert line.startswith("- time of a step, pytorch, in 2 of 6: ")
    assert line.count("bert\\_tiny") == 2
    # A budget is odtc's own.
    assert not any("32MiB" in line for line in lost)


def test_every_setting_has_a_row_with_a_cell_for_each_head(text: str) -> None:
    means, settings = tables(text)
    assert len(settings) == SETTINGS + 2
    assert {len(row) for row in settings} == {5 + 2 * (len(ENGINES) - 1)}
    assert {len(row) for row in means} == {4}
    assert [row[0] for row in means[2:]] == ["onnxruntime-training", "pytorch", "mnn", "tvm"]
    large = next(row for row in settings if row[:2] == ["resnet50", "4"])
    assert 1150 < float(large[3].replace(",", "")) < 1350
    assert float(large[4]) == pytest.approx(330 * 2.5)


def test_the_words_of_others_are_no_markup(text: str) -> None:
    assert "lenet \\<b\\>" in text
    assert "\\<no gradient\\>" in text
    assert not re.search(r"(?<!\\)[<>_]", text)


def test_files_of_one_suite_have_titles_of_their_own(tmp_path: Path) -> None:
    """By batches and models; one file of a suite needs no more than its name."""
    files = [write_rows(tmp_path / f"{name}.jsonl") for name in "ab"]
    kept = files[1].read_text().splitlines(keepends=True)
    first = json.loads(kept[1])["setting"]
    few = [row for row in kept[1:] if json.loads(row)["setting"] == first]
    files[1].write_text("".join([kept[0], *few]))
    output = tmp_path / "report.md"
    assert main(["report", *map(str, files), "-o", str(output)]) == ExitCode.OK
    titles = re.findall(r"^## (.*)$", output.read_text(), re.M)
    assert titles[0].endswith(": batch 1, 4; lenet \\<b\\>, resnet50, bert\\_tiny")
    assert titles[1].endswith(": batch 1; lenet \\<b\\>")


def test_files_of_one_suite_on_two_machines_are_told_by_these(tmp_path: Path) -> None:
    files = [write_rows(tmp_path / f"{name}.jsonl") for name in "ab"]
    for file, core in zip(files, ("znver5", "znver4"), strict=True):
        head, rest = file.read_text().split("\n", 1)
        said = json.loads(head)
        said["comparison"]["machine"]["core"] = core
        file.write_text(f"{json.dumps(said)}\n{rest}")
    output = tmp_path / "report.md"
    assert main(["report", *map(str, files), "-o", str(output)]) == ExitCode.OK
    titles = re.findall(r"^## (.*)$", output.read_text(), re.M)
    assert [title.rpartition(", on ")[2] for title in titles] == [
        "A CPU (znver5)",
        "A CPU (znver4)",
    ]


def test_the_words_of_a_head_are_no_markup(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head, rest = file.read_text().split("\n", 1)
    said = json.loads(head)
    mark = "</script><img src=x onerror=alert(1)> [a](javascript:b)"
    said["comparison"] |= {"commit": "<img src=1>", "versions": {mark: mark}}
    said["comparison"]["machine"] |= {"cpu": mark, "core": mark}
    said["comparison"]["suite"]["title"] = mark
    file.write_text(f"{json.dumps(said)}\n{rest}")
    for name in ("report.md", "report.html"):
        output = tmp_path / name
        assert main(["report", str(file), "-o", str(output)]) == ExitCode.OK
        assert not re.search(r"(?<!\\)<img", output.read_text())
    assert not re.search(r"(?<!\\)\[a", (tmp_path / "report.md").read_text())


@pytest.mark.parametrize(
    "wrong",
    [
        {"machine": "x"},
        {"machine": {"cpu": {"x": 1}}},
        {"versions": ["odtc"]},
        {"steps": "8"},
        {"memory_limit": "much"},
        {"commit": 7},
        {"suite": []},
        {"suite": {"title": 5}},
        {"suite": {"published": [{"title": "a"}]}},
        {"suite": {"published": [{"title": "a", "source": "", "heads": ["x"], "rows": [[1, 2]]}]}},
    ],
)
def test_a_first_line_of_other_types_is_no_result(
    wrong: dict, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head, rest = file.read_text().split("\n", 1)
    said = json.loads(head)
    said["comparison"] |= wrong
    file.write_text(f"{json.dumps(said)}\n{rest}")
    output = tmp_path / "report.html"
    assert main(["report", str(file), "-o", str(output)]) == ExitCode.DATA
    assert "the results are not as odtc writes them" in capsys.readouterr().err
    assert not output.exists()
