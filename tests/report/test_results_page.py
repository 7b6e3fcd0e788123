"""docs/results.md is what `odtc report` makes of the rows that lie beside it."""

from pathlib import Path

from odtc.cli.main import main
from odtc.core.errors import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
FILES = (
    *("tx2", "tx2_16", "tx2_text_16", "tx2_64", "tx2_text_64", "tx2_large", "tx2_rest"),
    *("emdl21", "emdl21_tvm", "emdl21_lenet", "zoo", "emdl21_values"),
)


def test_the_page_is_made_of_the_rows(tmp_path: Path) -> None:
    rows = [str(DOCS / "results" / f"{name}.jsonl") for name in FILES]
    page = tmp_path / "results.md"
    assert main(["report", *rows, "--title", "Results", "-o", str(page)]) == ExitCode.OK
    assert page.read_text("utf-8") == (DOCS / "results.md").read_text("utf-8")
