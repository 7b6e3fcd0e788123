"""What the site has beside docs/: files of the repository that pages link to.

A page links to a file by its place in the repository. Where that is outside of docs/, the site has
a copy under `repository/`, Markdown as a page, and the link leads there; a link to a folder becomes
its text.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COPIES = "repository"
_LINK = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)\s#]+)(?P<title>#[^)\s]*)?\)"
)
# A block that tests write to a file, as "python model.py" behind its fence.
_NAMED = re.compile(r"^```(\w+) (\S+)$", re.M)
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what the pages link to, and what that links to."""
    seen: set[Path] = set()
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    while waiting:
        source = waiting.pop()
        for match in _LINK.finditer(source.read_text(encoding="utf-8")):
            target = _outside(source, match["path"])
            if target and target.is_file() and target not in seen:
                seen.add(target)
                files.append(File.generated(config, _copy(target), content=target.read_bytes()))
                waiting += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leads links to the copies, and gives blocks of code the names of their files."""
    place = PurePosixPath(page.file.src_uri)
    is_copy = place.parts[0] == COPIES
    source = ROOT / place.relative_to(COPIES) if is_copy else DOCS / place

    def led(match: re.Match[str]) -> str:
        target = (source.parent / match["path"]).resolve()
        if target.is_dir():
            return match["text"]
        if not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]
        inside = target.is_relative_to(DOCS)
        there = PurePosixPath(target.relative_to(DOCS)) if inside else PurePosixPath(_copy(target))
        up = "/".join([".."] * (len(place.parts) - 1))
        return f"[{match['text']}]({up + '/' if up else ''}{there}{match['title'] or ''})"

    parts = _FENCE.split(markdown)
    text = "".join(part if at % 2 else _LINK.sub(led, part) for at, part in enumerate(parts))
    return _NAMED.sub(r'```\1 title="\2"', text)


def _outside(source: Path, path: str) -> Path | None:
    """The file of the repository that a link leads to, if it is not one of docs/."""
    if ":" in path:
        return None
    target = (source.parent / path).resolve()
    within = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
    return target if within else None


def _copy(target: Path) -> str:
    return f"{COPIES}/{target.relative_to(ROOT).as_posix()}"
