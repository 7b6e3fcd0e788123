"""Rows of values without times are on the page, and in Markdown: as values only."""

import json
import re
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode

HEAD = {
    "suite": {"title": "Two nets", "sha256": ""},
    "target": "android-cpu",
    "emulated": True,
    "versions": {"odtc": "0.1.0"},
    "commit": "0123456789abcdef",
}
ROWS = [
    {"model": "lenet", "batch": 4, "here": [2.4, 2.3, 2.2], "there": [2.4, 2.3, 2.2]},
    {"model": "other", "batch": 1, "here": [2.4, 2.3, 2.2], "there": [2.4, 2.4, 2.4]},
]


@pytest.mark.parametrize("output", ["report.md", "report.html"])
def test_losses_there_and_here(tmp_path: Path, output: str) -> None:
    rows, page = tmp_path / "values.jsonl", tmp_path / output
    lines = [{"values": HEAD}, *({**row, "lr": 0.01, "planned": 1000} for row in ROWS)]
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert main(["report", str(rows), "-o", str(page)]) == ExitCode.OK
    # Of the page, what is between its marks.
    text = re.sub(r"<[^>]*>", " ", page.read_text()) if page.suffix == ".html" else page.read_text()
    assert "on an emulated device (android-cpu)" in text
    assert "nothing was timed" in text
    words = " ".join(text.replace("|", " ").split())
    assert "lenet 4 0.01 2.40000, 2.30000, 2.20000 2.40000, 2.30000, 2.20000 yes" in words
    assert "other 1 0.01 2.40000, 2.40000, 2.40000 2.40000, 2.30000, 2.20000 no" in words
