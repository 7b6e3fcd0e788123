"""The first screens of the site: each page has its own, and none is wider than its window."""

from pathlib import Path

import pytest

from tests.pages.followed import DOCS
from tests.pages.screens import ALSO_DARK, SCREENS, SIZES, screens
from tests.pages.site import ROOT, build

# Pages with a wide table, a block of long lines, a picture, and a long list.
WIDE = ("index", "cli", "concepts", "peers", "pages")


def test_each_page_has_its_screens() -> None:
    """`python -m tests.pages.screens PAGE` draws what is missing."""
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")]
    pages = [page for page in pages if not page.startswith("design/") and page != "README"]
    ends = [
        f"{page}-{width}{dark}.webp"
        for page in (*pages, "index", "pages")
        for width in SIZES
        for dark in ("", *(["-dark"] if page in ALSO_DARK else []))
    ]
    found = [file.relative_to(SCREENS).as_posix() for file in SCREENS.rglob("*.webp")]
    assert sorted(found) == sorted(ends)


def test_no_page_is_wider_than_a_phone(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page, picture, wide in screens(tmp_path / "site", WIDE, min(SIZES)):
        assert wide == min(SIZES), page
        # Something is drawn below the bar at the top.
        assert picture[100:].std() > 0.05, page


def test_a_page_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "here.html").write_text("<article><h1>Here</h1></article>")
    with pytest.raises(AssertionError, match="gone was not shown"):
        list(screens(tmp_path, ["here", "gone"], min(SIZES)))
