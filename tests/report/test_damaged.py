"""`odtc report` of files that others wrote: a page without their markup, or a refusal."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odtc.cli.main import main
from odtc.core.disk.file_limits import MOST_RESULTS_BYTES
from odtc.core.errors import DataError, ExitCode
from odtc.report.markdown import markdown
from odtc.report.page import page
from odtc.report.read import read
from tests.cli.measuring.test_profile_command import drawn
from tests.report.material import write_frontier, write_rows
from tests.report.test_values_tables import HEAD

MARK = '"><img src=1>'
GONE = object()
OTHERS = (
    *(GONE, None, MARK, [], {}, [None], {"a": 1}, True),
    *(-1, 0, 1.5, 10**400, 1e308, float("nan"), float("inf"), [0.0], [1e308] * 2),
)


def _profile(_: Path) -> list[Any]:
    profile = drawn().to_dict() | {"samples": {}, "steps": [], "moves": [], "usage": {}}
    return [json.loads(json.dumps(profile))]


def _frontier(folder: Path) -> list[Any]:
    data = json.loads(write_frontier(folder / "f.json").read_text())
    least = [{"budget_bytes": 10, "time": 1.1}]
    return [data | {"strategies": {"x": data["points"][:2]}, "least": least, "by_threads": {1: 5}}]


def _rows(folder: Path) -> list[Any]:
    head, *rows = map(json.loads, write_rows(folder / "r.jsonl").read_text().splitlines())
    return [rows[0], head, *rows[1:3]]


def _values(_: Path) -> list[Any]:
    losses = {"here": [2.4, 2.3, 2.2], "there": [2.4, 2.3, 2.2]}
    first, other = ({"model": name, "batch": 4, "lr": 0.1, "planned": 9} | losses for name in "ab")
    return [first, {"values": HEAD}, other]


def _text(data: list[Any]) -> str:
    first, *others = data
    # Of rows it is the first row that is changed, not the head.
    ordered = [others[0], first, *others[1:]] if others else data
    return "".join(f"{json.dumps(each)}\n" for each in ordered)


def _changed(data: Any) -> Iterator[Any]:
    """The data with one value in another's place, or without it, at each place of it."""
    keys = list(data) if isinstance(data, dict) else range(min(2, len(data)))
    for key in keys:
        for other in OTHERS:
            copy = data.copy()
            if other is GONE:
                del copy[key]
            else:
                copy[key] = other
            yield copy
        if isinstance(data[key], dict | list):
            for inner in _changed(data[key]):
                copy = data.copy()
                copy[key] = inner
                yield copy


@pytest.mark.parametrize("make", [_profile, _frontier, _rows, _values])
def test_a_value_of_another_type_is_shown_or_refused(
    make: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    first, *others = make(tmp_path)
    file = tmp_path / "a.json"
    refused = shown = 0
    for changed in _changed(first):
        file.write_text(_text([changed, *others]))
        try:
            material = read([file])
        except DataError:
            refused += 1
            continue
        for text in (page(material, "x"), markdown(material, "x")):
            shown += 1
            assert "<img" not in text.replace("\\<img", "")
    assert refused > 30
    assert shown > 30


def test_a_name_of_a_phase_is_no_markup(tmp_path: Path) -> None:
    (data,) = _profile(tmp_path)
    data["phases"][MARK] = data["phases"]["forward"]
    file = tmp_path / "a.json"
    file.write_text(json.dumps(data))
    with pytest.raises(DataError, match="is not a valid Phase"):
        read([file])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"round": 9}, "odtc took no turn"),
        ({"seconds": [1.0], "cpu_seconds": []}, "another number of steps than odtc"),
        ({"cpu_seconds": [1.0]}, "cpu_seconds: 1 of 8 steps"),
        ({"engine": "odtc"}, "odtc took 2 turns"),
        ({"losses": "123"}, "'123' is not a list of numbers"),
        ({"losses": [True]}, "is not a list of numbers"),
        ({"reason": "\ud800"}, "line 5 of a comparison: reason: .*surrogates not allowed"),
        ({"copy": 5e-324}, "copy: 5e-324 is not a float"),
        ({"seconds": [0.0] * 8}, "a step that took no time"),
    ],
)
def test_engines_that_took_no_turns_are_refused(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    peer = next(each for each in lines[1:] if each["engine"] == "pytorch")
    peer |= change
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    with pytest.raises(DataError, match=said):
        read([file])


def test_a_process_that_shrank_grew_by_nothing(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for row in lines[1:]:
        if row["peak"]:
            row["imported"] = 10**12
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    material = read([file])
    assert {each.net for each in material.results if each.peak} == {0}
    assert page(material, "x")


@pytest.mark.parametrize("text", ["[" * 10**6, '{"points": ' + "[" * 10**6, "[1]", "7", ""])
def test_what_is_no_object_is_no_result(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(DataError, match="the file has no results"):
        read([file])


def test_a_file_without_an_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "/dev/zero"]) == ExitCode.DATA
    assert f"more than {MOST_RESULTS_BYTES:,} bytes" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"copy": 0}, {"moved": 0}, {"fma": 0}])
def test_without_a_ceiling_there_is_no_roof(change: dict[str, int], tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head, *rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text(
        "".join(f"{json.dumps(each)}\n" for each in [head, *(r | change for r in rows)])
    )
    assert 'id="roofline"' not in page(read([file]), "x")


def test_a_row_of_lists_without_an_end_is_named(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head = file.read_text().split("\n", 1)[0]
    file.write_text(f"{head}\n{'[' * 10**6}\n")
    with pytest.raises(DataError, match="line 2 of a comparison"):
        read([file])


@pytest.mark.parametrize("name", ["x.md", "x.html"])
def test_a_comparison_that_ended_before_its_first_row(name: str, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    file.write_text(file.read_text().split("\n", 1)[0] + "\n")
    assert main(["report", str(file), "-o", str(tmp_path / name)]) == ExitCode.OK


@pytest.mark.parametrize(
    "change",
    [
        {"rows": []},
        {"rows": [["x"]]},
        {"heads": [1, 2, 3]},
        {"rows": [["a", "b", 10**400]]},
        {"rows": [["a", "b", float("nan")]]},
    ],
)
def test_published_tables_have_rows_as_long_as_their_heads(
    change: dict[str, Any], tmp_path: Path
) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head, rest = file.read_text().split("\n", 1)
    said = json.loads(head)
    said["comparison"]["suite"]["published"][0] |= change
    file.write_text(f"{json.dumps(said)}\n{rest}")
    with pytest.raises(DataError, match="not as odtc writes them"):
        read([file])


def test_other_ends_of_lines_and_marks_of_order_are_read(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    text = file.read_text().replace('"reason": ""', '"reason": "\u2028"').replace("\n", "\r\n\r\n")
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert len(read([file]).results) == len(read([write_rows(tmp_path / "b.jsonl")]).results)


def test_a_page_says_of_which_file_a_setting_is(tmp_path: Path) -> None:
    """Two runs of one suite, in one of which PyTorch takes twice as long."""
    first, second = (write_rows(tmp_path / f"{name}.jsonl") for name in ("first", "second"))
    lines = [json.loads(line) for line in second.read_text().splitlines()]
    for row in lines[1:]:
        if row["engine"] == "pytorch":
            row["seconds"] = [2 * each for each in row["seconds"]]
    second.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    found = {
        each.setting.model: each.step.median
        for each in read([first, second]).results
        if each.engine == "pytorch" and each.setting.batch == 1 and each.step
    }
    assert found["resnet50 (second)"] == pytest.approx(2 * found["resnet50 (first)"])
    assert "resnet50 (first)" in page(read([first, second]), "x")


def test_losses_that_are_not_finite_leave_the_page_json(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl")
    head, *rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["losses"] = [1.0, float("nan")]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in [head, *rows]))
    text = page(read([file]), "x").split('id="data">')[1].split("</script>")[0]
    assert "NaN" not in text
    assert json.loads(text)[0]["rows"][0]["losses"] == [1.0, None]


def test_names_of_files_may_have_any_letter(tmp_path: Path) -> None:
    file = os.fsencode(write_frontier(tmp_path / "f.json"))
    other = file.replace(b"f.json", b'\xff "<#\n.json')
    os.rename(file, other)
    output = tmp_path / "x.html"
    assert main(["report", os.fsdecode(other), "-o", str(output)]) == ExitCode.OK
    text = output.read_text()
    assert 'href="#frontier-0"' in text
    assert 'id="frontier-0"' in text


def test_a_link_to_itself_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match="cannot be read"):
        read([tmp_path / "a"])


def test_files_of_one_name_are_told_apart_and_the_same_file_counts_once(tmp_path: Path) -> None:
    files = [write_frontier(tmp_path / name) for name in ("plan.4", "plan.8")]
    assert [*read(files).frontiers] == ["plan.4", "plan.8"]
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.append(write_frontier(tmp_path / name / "plan.json"))
        files.append(write_rows(tmp_path / name / "rows.jsonl"))
    found = read([*files, *files])
    assert [*found.frontiers] == ["one/plan.json", "two/plan.json"]
    assert found.names == ["one/rows.jsonl", "two/rows.jsonl"]


@pytest.mark.parametrize(("here", "there"), [([], []), ([1.0], []), ([1.0], [1.0, 1.0])])
def test_values_without_losses_are_refused(
    here: list[float], there: list[float], tmp_path: Path
) -> None:
    row = {"model": "a", "batch": 4, "lr": 0.1, "planned": 9, "here": here, "there": there}
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps({'values': HEAD})}\n{json.dumps(row)}\n")
    with pytest.raises(DataError, match=f"{len(there)} losses there and {len(here)} here"):
        read([file])


def test_what_powershell_redirects_is_read(tmp_path: Path) -> None:
    file = write_frontier(tmp_path / "plan.json")
    file.write_bytes(file.read_text().replace("\n", "\r\n").encode("utf-16"))
    assert read([file]).frontiers["plan"].points
