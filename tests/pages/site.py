"""The site of the documentation, built."""

import os
import subprocess
import sys
from pathlib import Path

from tests.pages.followed import DOCS

ROOT = DOCS.parent
# Beside the pages.
_NOT_FOUND = "404.html"


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a configuration, where a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config]
    return subprocess.run(
        [*command, "--site-dir", site],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )


def pages_of(site: Path) -> list[str]:
    """The names of its pages, such as `howto/images`."""
    pages = (page.relative_to(site) for page in site.rglob("*.html"))
    return sorted(page.with_suffix("").as_posix() for page in pages if page.name != _NOT_FOUND)
