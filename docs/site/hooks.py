"""What the site has beside docs/: files of the repository that pages link to.

The first page is the repository's README.md; docs/README.md is the list of all pages. A page links
to a file by its place in the repository. Where that is outside of docs/, the site has a copy under
`repository/`, Markdown as a page, and the link leads there; a link to a folder becomes its text.
A link that is called as its file is called as its page.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COPIES = "repository"
# Pages that have another place on the site.
_PLACES = {ROOT / "README.md": "index.md", DOCS / "README.md": "pages.md"}
_SOURCES = {place: source for source, place in _PLACES.items()}
_LINK = re.compile(
    r"\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)\s#]+)(?P<title>#[^)\s]*)?\)"
)
# A block that tests write to a file, as "python model.py" behind its fence.
_NAMED = re.compile(r"^```(\w+) (\S+)$", re.M)
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
# Code within a line, and a word of it that a browser would break behind a hyphen, or anywhere.
_INLINE = re.compile(r"(?<!<pre>)<code>([^<]*)</code>")
_WORD = re.compile(r"\S{1,40}(?!\S)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the first page, what the pages link to, and what that links to."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    index = files.get_file_from_path("README.md")
    assert index
    files.remove(index)
    for source, place in _PLACES.items():
        files.append(File.generated(config, place, content=source.read_bytes()))
    waiting.append(ROOT / "README.md")
    seen = {*_PLACES}
    while waiting:
        source = waiting.pop()
        for match in _LINK.finditer(source.read_text(encoding="utf-8")):
            target = _outside(source, match["path"])
            if target and target.is_file() and target not in seen:
                seen.add(target)
                files.append(File.generated(config, _place(target), content=target.read_bytes()))
                waiting += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Leads links to the copies, and gives blocks of code the names of their files."""
    place = PurePosixPath(page.file.src_uri)
    source, names = _source(place), dict(_names(config.nav or []))

    def led(match: re.Match[str]) -> str:
        target = (source.parent / match["path"]).resolve()
        if target.is_dir():
            return match["text"]
        if not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]
        up, there = "../" * (len(place.parts) - 1), _place(target)
        text = match["text"]
        is_file = text.endswith(".md") and match["path"].endswith(text)
        text = names.get(there, text) if is_file else text
        return f"[{text}]({up}{there}{match['title'] or ''})"

    parts = _FENCE.split(markdown)
    text = "".join(part if at % 2 else _LINK.sub(led, part) for at, part in enumerate(parts))
    return _NAMED.sub(r'```\1 title="\2"', text)


def on_page_content(html: str, **_: Any) -> str:
    """Keeps the words of code within a line whole: a browser would break `--train` behind `--`."""
    return _INLINE.sub(
        lambda code: f"<code>{_WORD.sub(_whole, code[1])}</code>",
        html,
    )


def _whole(word: re.Match[str]) -> str:
    return f'<span class="whole">{word[0]}</span>'


def _names(nav: list[Any] | dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the navigation calls each page."""
    for entry in nav if isinstance(nav, list) else nav.items():
        if isinstance(entry, dict):
            yield from _names(entry)
        elif isinstance(entry[1], str):
            yield entry[1], entry[0]
        else:
            yield from _names(entry[1])


def _outside(source: Path, path: str) -> Path | None:
    """The file of the repository that a link leads to, if it is not one of docs/."""
    if ":" in path:
        return None
    target = (source.parent / path).resolve()
    within = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
    return target if within else None


def _place(target: Path) -> str:
    """Where the site has a file of the repository."""
    if target in _PLACES:
        return _PLACES[target]
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    return f"{COPIES}/{target.relative_to(ROOT).as_posix()}"


def _source(place: PurePosixPath) -> Path:
    """The file of the repository that a page of the site is made of."""
    if str(place) in _SOURCES:
        return _SOURCES[str(place)]
    return ROOT / place.relative_to(COPIES) if place.parts[0] == COPIES else DOCS / place
