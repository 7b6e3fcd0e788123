"""The page of phones: its lines, and files of strangers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.phones import lines_of, main, plain
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow

HEAD = {
    "device": {"model": "Pixel | 9", "soc": "<b>T</b>", "android": "15", "emulated": False},
    "target": "android-cpu",
    "commit": "0123456789abcdef",
}
ROW = SweepRow(
    Configuration("lenet", 4, "big", 2), 0, (0.003, 0.001, 0.002), energy=0.6, resident=8e6
)


def text(head: Any = HEAD, *rows: SweepRow) -> str:
    lines = [{"sweep": head}, *(row.to_dict() for row in rows)]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_a_file_is_a_line_for_each_configuration() -> None:
    rows = (ROW, replace(ROW, round=1, seconds=(0.005,), energy=0.2))
    (line,) = lines_of(text(HEAD, *rows))
    said = "Pixel &#124; 9, Android 15", "&#60;b&#62;T&#60;/b&#62;", "android-cpu"
    assert tuple(line[:3]) == said
    assert line[3:7] == ["lenet", "4", "big", "2"]
    assert line[7:] == ["2.5 (1.0 to 5.0)", "0.2", "8", "0123456789ab"]


@pytest.mark.parametrize("where", ["device", "row"])
def test_an_emulator_has_no_figures(where: str) -> None:
    head = HEAD | {"device": HEAD["device"] | {"emulated": where == "device"}}
    (line,) = lines_of(text(head, replace(ROW, emulated=where == "row")))
    assert line[7:10] == ["emulated", "", ""]


def test_what_cannot_run_has_its_reason() -> None:
    (line,) = lines_of(text(HEAD, replace(ROW, seconds=(), reason="out of memory")))
    assert line[7] == "none: out of memory"


def test_text_of_others_is_no_markdown() -> None:
    assert plain("a\n| [x](y) `z`") == "a &#124; &#91;x&#93;(y) &#96;z&#96;"
    assert len(plain("k" * 500)) == 60


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}\n",
        "nothing\n",
        text({"target": "host-cpu"}, ROW),
        text([], ROW),
        text(HEAD, replace(ROW, seconds=("fast",))),  # pyright: ignore[reportArgumentType]
        text(HEAD, replace(ROW, seconds=(float("nan"),))),
        text(HEAD, replace(ROW, energy="much")),  # pyright: ignore[reportArgumentType]
        text().replace("device", "phone"),
        text(HEAD, ROW)[:-40] + "\n",
    ],
)
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "sent.jsonl").write_text(content)
    page = tmp_path / "page.md"
    assert main([str(tmp_path / "sent.jsonl"), "-o", str(page)]) == ExitCode.DATA
    assert not page.exists()
