"""ARCHITECTURE.md is a short map; what it and the pages of docs/design name is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.followed import DOCS

ROOT = DOCS.parent
MAP = ROOT / "ARCHITECTURE.md"
DESIGN = sorted((DOCS / "design").glob("*.md"))
GLOSSARY = DOCS / "glossary.md"
MOST_LINES, MOST_TERMS = 250, 60
# What each page of design begins with.
HEADS = ("**Problem.**", "**Idea.**", "**Invariant", "**Open first.**")

_FOLDERS = sorted(p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] not in "._")
_LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<title>[^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)
# A path from the root of the repository, wherever it stands: `backends/kernels/norm/`.
_FROM_ROOT = re.compile(rf"(?<![\w./@-])(?:{'|'.join(_FOLDERS)})/[\w./-]*\w")
_FILE = re.compile(r"`([\w./-]+\.(?:py|cc|h|md|toml|css|js))`")
_CLASS = re.compile(r"`([A-Z]\w*)[(`]")
# The head of a table whose first column has files of a folder.
_TABLE = re.compile(r"^\| file in `(?P<folder>[^`]+)`")


def missing(text: str) -> Iterator[str]:
    """Paths of a text that lead nowhere; a file stands with all of its folders, but for tables."""
    folder = ""
    for line in text.splitlines():
        head = _TABLE.match(line)
        if head:
            folder = head["folder"]
            continue
        first = folder and line.startswith("|")
        if not first:
            folder = ""
        own = line.split("|")[1] if first else ""
        others = line.replace(own, "") if first else line
        named = [f"{folder}/{name}" for name in _FILE.findall(own)]
        named += [*_FILE.findall(others), *_FROM_ROOT.findall(others)]
        yield from (name for name in dict.fromkeys(named) if not (ROOT / name).exists())


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each link within the repository: as written, the file, and the title in it, if any."""
    for match in _LINK.finditer(page.read_text()):
        path, title = match["path"], match["title"] or ""
        if not path.startswith(("http:", "https:")):
            yield match[0], (page.parent / path).resolve() if path else page, title


def titles(page: Path) -> set[str]:
    """Headings as links name them."""
    plain = (re.sub(r"[^\w\s-]", "", each.lower()) for each in _HEADING.findall(page.read_text()))
    return {each.strip().replace(" ", "-") for each in plain}


def types(page: Path) -> Iterator[tuple[str, str]]:
    """Of rows such as "| `Cut`, `Way(cut, plan)` | `passes/x.py` |": each class with its places."""
    for line in page.read_text().splitlines():
        cells = line.split("|")
        if len(cells) == 5 and "/" in cells[2]:
            yield from ((name, cells[2]) for name in _CLASS.findall(cells[1]))


def test_the_map_is_short() -> None:
    assert len(MAP.read_text().splitlines()) <= MOST_LINES


def test_the_map_has_every_page_of_design() -> None:
    assert set(DESIGN) <= {path for _, path, _ in links(MAP)}


@pytest.mark.parametrize("page", [MAP, GLOSSARY, *DESIGN], ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert not list(missing(page.read_text()))


@pytest.mark.parametrize("page", [MAP, DOCS / "design/types.md"], ids=lambda page: page.stem)
def test_classes_are_defined_where_a_page_says(page: Path) -> None:
    found = list(types(page))
    assert len(found) > 12
    for name, cell in found:
        paths = [ROOT / each for each in re.findall(r"`([^`]+)`", cell)]
        files = [
            each for path in paths for each in (path.glob("*.py") if path.is_dir() else [path])
        ]
        assert any(re.search(rf"^class {name}\b", each.read_text(), re.M) for each in files), name


def test_the_glossary_is_short_and_in_order() -> None:
    """A row a term, each with the one file to read; the map leads to it."""
    rows = [line.split("|")[1:-1] for line in GLOSSARY.read_text().splitlines() if line[:2] == "| "]
    terms = [term.strip() for term, *_ in rows[1:]]
    assert 20 < len(terms) <= MOST_TERMS
    assert terms == sorted(set(terms))
    assert all(len(row) == 3 and re.fullmatch(r" `[\w./]+/[\w.]*` ", row[2]) for row in rows[1:])
    assert GLOSSARY in {path for _, path, _ in links(MAP)}


def test_links_to_design_lead_to_a_title() -> None:
    """Those of all pages; those of design lead somewhere whatever they lead to."""
    lost = []
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for written, path, title in links(page):
            if {page, path} & {MAP, GLOSSARY, *DESIGN}:
                found = path.exists() and (not title or title in titles(path))
                lost += [] if found else [f"{page.relative_to(ROOT)}: {written}"]
    assert not lost


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.stem)
def test_a_page_of_design_begins_with_what_it_is_about(page: Path) -> None:
    opening = page.read_text().split("\n## ")[0]
    places = [opening.find(head) for head in HEADS]
    assert -1 not in places
    assert places == sorted(places)
    # The idea in a picture.
    assert "\n    " in opening[places[1] : places[2]]


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("see `backends/lowering.py` and frontend/operators/", []),
        ("see `backends/lowring.py`", ["backends/lowring.py"]),
        ("    build ─→ odtc/bilding.py", ["odtc/bilding.py"]),
        ("`lowering.py` stands alone", ["lowering.py"]),
        ("| file in `backends/kernels` | holds |\n|---|---|\n| `product/tile.py` | it |", []),
        (
            "| file in `backends/kernels` | holds |\n| `tile.py` | it |",
            ["backends/kernels/tile.py"],
        ),
        ("| file in `backends/kernels` | holds |\n\n| `product/tile.py` |", ["product/tile.py"]),
        ("`step.so`, `src/backend/opencl` of TVM, https://x.org/docs/none.py", []),
    ],
)
def test_a_path_that_leads_nowhere_is_found(text: str, lost: list[str]) -> None:
    assert list(missing(text)) == lost
