"""Writes the figures of all pages: see the package."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import benchmarks.pages as package
from benchmarks.pages.kernels import ROOT, note_changes
from benchmarks.pages.markers import filled
from benchmarks.pages.parts import FILES, WITHOUT_KERNELS, text_of
from benchmarks.pages.picture import pictures
from benchmarks.pages.result import path_of
from benchmarks.pages.suites import results_page

RESULTS_PAGE = ROOT / "docs" / "results.md"


def pages() -> Iterator[tuple[Path, str]]:
    """Each page and picture that has figures, with the text that it should have."""
    yield RESULTS_PAGE, results_page()
    yield from pictures()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if path != RESULTS_PAGE:
            yield path, filled(path.read_text(encoding="utf-8"), text_of)


def main() -> int:
    """Writes them; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages", description=(package.__doc__ or "").splitlines()[0]
    )
    parser.parse_args()
    for name in FILES:
        if name not in WITHOUT_KERNELS and note_changes(path_of(name)):
            print(path_of(name).relative_to(ROOT))
    for path, text in pages():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
