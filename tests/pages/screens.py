"""The first screens of the site's pages, as a phone, a tablet and a desk show them.

    python -m tests.pages.screens                 # of all pages, into docs/screens
    python -m tests.pages.screens index tutorial  # of these pages alone

Many pages are in one window of Chromium, each in a frame: styles go by the width of the frame. Look
at what has changed before you commit it.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from tests.browser import DARK, shown
from tests.pages.site import ROOT, build, pages_of

SCREENS = ROOT / "docs" / "screens"
# The height of a window of each width, in pixels.
SIZES = {390: 844, 768: 1024, 1280: 800}
# Pages for those who use odtc: those of design and of the repository have their form.
OTHERS = ("design/", "repository/")
# Pages that are also shown as a dark theme has them: those with pictures, and code.
ALSO_DARK = ("concepts", "index", "tutorial")
# Steps of red, green and blue above black.
_STEPS = 15
# Frames of one window; with more it would be higher than Chromium draws.
_MOST = 15
_FRAMES = """<!DOCTYPE html><title>-</title><style>body {{ margin: 0 }}
iframe {{ display: block; border: 0; width: {width}px; height: {height}px }}</style>
{frames}
<script>addEventListener("load", () => {{
  const pages = [...document.querySelectorAll("iframe")].map(frame => frame.contentDocument);
  document.title = JSON.stringify(pages.map(
    page => page.querySelector("article h1") ? page.documentElement.scrollWidth : 0));
}})</script>"""


def main() -> int:
    """Writes the pictures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pages.screens", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("pages", nargs="*", help="such as index or howto/images; else all")
    chosen = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        done = build(ROOT / "mkdocs.yml", site)
        assert done.returncode == 0, done.stdout + done.stderr
        pages = chosen or shown_pages(site)
        for width in SIZES:
            for page, picture, _ in screens(site, pages, width):
                write(picture, page, f"{width}")
            dark = [page for page in pages if page in ALSO_DARK]
            for page, picture, _ in screens(site, dark, width, DARK):
                write(picture, page, f"{width}-dark")
    return 0


def shown_pages(site: Path) -> list[str]:
    """The pages of a site whose first screens are kept."""
    return [page for page in pages_of(site) if not page.startswith(OTHERS)]


def screens(
    site: Path, pages: Sequence[str], width: int, *options: str
) -> Iterator[tuple[str, np.ndarray, int]]:
    """Each page's first screen, float32[height, width, 3], and how wide the page is.

    Args:
        site: the folder of the built site.
        pages: such as `howto/images`.
        width: of the window, in pixels.
        options: of Chromium.
    """
    height = SIZES[width]
    for start in range(0, len(pages), _MOST):
        some = pages[start : start + _MOST]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            frames = "\n".join(
                f'<iframe src="{(site / page).as_uri()}.html"></iframe>' for page in some
            )
            window = folder / "window.html"
            window.write_text(_FRAMES.format(width=width, height=height, frames=frames))
            size = (max(500, width), height * len(some))
            seen = shown(window, folder, size, "--disable-web-security", *options)
        found = re.search(r"<title>(\[.*?\])</title>", seen.document)
        assert found, seen.console
        wide = json.loads(found[1])
        for at, page in enumerate(some):
            assert wide[at], f"{page} was not shown"
            yield page, seen.picture[at * height : (at + 1) * height, :width], wide[at]


def write(picture: np.ndarray, page: str, end: str) -> None:
    """Writes a picture, small: a colour has 16 steps, of which white, black and greys are some."""
    path = SCREENS / f"{page}-{end}.webp"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(((picture * _STEPS).round() * (255 // _STEPS)).astype(np.uint8))
    image.save(path, lossless=True, quality=100, method=4)
    print(path.relative_to(ROOT), flush=True)


if __name__ == "__main__":
    sys.exit(main())
