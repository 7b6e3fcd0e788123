"""A suite is a table of TOML: the one that docs/comparison.md shows is read."""

import re
from pathlib import Path

from odtc.comparison.suite import find_suite

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


def test_the_table_of_the_page_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.S)
    (table := tmp_path / "mine.toml").write_text(text)
    suite = find_suite(str(table))
    assert suite.root == tmp_path
    assert (suite.models, suite.batches, suite.memory_limit) == (["small", "large"], [1, 4], "2GB")
    assert len(suite.published[0]["heads"]) == len(suite.published[0]["rows"][0])
