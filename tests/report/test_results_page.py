"""docs/results.md is what `odtc report` makes of the rows beside it, with the age of each file."""

import re
from pathlib import Path

from benchmarks.pages.adapter_losses import adapter_losses
from benchmarks.pages.core_losses import core_losses
from benchmarks.pages.gpu_losses import gpu_losses
from benchmarks.pages.result import RESULTS, read_result
from benchmarks.pages.suite_rows import SUITES
from benchmarks.pages.suites import results_page
from odtc.cli.main import main
from odtc.core.errors import ExitCode


def test_the_page_is_made_of_the_rows(tmp_path: Path) -> None:
    files = [run["file"] for run in read_result(SUITES).runs]
    rows = [str(RESULTS / file) for file in files if file.endswith(".jsonl")]
    assert {Path(row).name for row in rows} == {path.name for path in RESULTS.glob("*.jsonl")}
    page = tmp_path / "results.md"
    assert main(["report", *rows, "--title", "Results", "-o", str(page)]) == ExitCode.OK
    ours = "\n".join([*core_losses(), "", *gpu_losses(), "", *adapter_losses()])
    others = results_page().replace(f"{ours}\n\n", "")
    without_ages, count = re.subn(r"\n\nRows: .*", "", others)
    assert count == len(rows)
    assert without_ages == page.read_text("utf-8")
