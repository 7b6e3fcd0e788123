"""The site: it builds without a warning, so without a dead link, and fetches nothing."""

import re
from pathlib import Path

import pytest

from tests.pages.followed import DOCS
from tests.pages.site import ROOT, build

# What a browser fetches by itself.
_FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]*)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_each_page_is_on_the_site(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    pages = {Path("pages.html") if str(page) == "README.html" else page for page in pages}
    assert not [page for page in pages if not (site / page).is_file()]
    assert (site / "repository" / "ARCHITECTURE.html").is_file()


def test_the_first_page_is_the_readme(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    for title in re.findall(r"^## (.*)$", (ROOT / "README.md").read_text("utf-8"), re.M):
        assert re.search(rf"<h2[^>]*>{re.escape(title)}", text), title
    assert 'src="pictures/peers.svg"' in text


def test_a_link_that_is_called_as_its_file_is_called_as_its_page(site: Path) -> None:
    text = (site / "limits.html").read_text("utf-8")
    assert '<a href="operators.html">ONNX operators</a>' in text
    assert not re.search(r"<a [^>]*>[\w/.]+\.md</a>", text)


def test_words_of_code_are_whole(site: Path) -> None:
    """A browser would break an option behind its dashes."""
    text = (site / "limits.html").read_text("utf-8")
    assert '<code><span class="whole">--export</span></code>' in text


def test_pictures_of_the_site_are_not_on_it(site: Path) -> None:
    assert not (site / "screens").exists()
    assert (site / "pictures" / "skyline.svg").is_file()


def test_a_browser_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not _FETCHED.findall(page.read_text("utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", style.read_text("utf-8"))


def test_markup_is_no_text(site: Path) -> None:
    """What GitHub takes as a block of code or as a table, the site does, too."""
    for page in site.rglob("*.html"):
        shown = re.sub(
            r"<(pre|code|script|style)\b.*?</\1>", "", page.read_text("utf-8"), flags=re.S
        )
        text = re.sub(r"<[^>]*>", "", shown)
        assert "```" not in text, page.name
        assert not re.search(r"\|\s*-{3,}", text), page.name
    tutorial = (site / "tutorial.html").read_text("utf-8")
    assert '<span class="filename">model.py</span>' in tutorial


def test_a_dead_link_fails(tmp_path: Path) -> None:
    """Also a link to a title that a page does not have."""
    for name, link in {"file": "gone.md", "title": "limits.md#gone"}.items():
        docs = tmp_path / name
        docs.mkdir()
        (docs / "README.md").write_text(f"# A page\n\n[there]({link})\n")
        (docs / "limits.md").write_text("# Limits\n")
        text = (ROOT / "mkdocs.yml").read_text().partition("nav:")[0]
        text = re.sub(r"docs_dir: .*", f"docs_dir: {docs}", text)
        text = re.sub(r"hooks: .*|extra_css: .*", "", text)
        config = tmp_path / f"{name}.yml"
        config.write_text(text)
        done = build(config, tmp_path / f"site-{name}")
        assert done.returncode != 0
        assert "gone" in done.stdout + done.stderr
