"""A page in headless Chromium."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.image import imread

BROWSER = "chromium"
DARK = "--blink-settings=preferredColorScheme=0"


@dataclass(frozen=True)
class Shown:
    """A page as a browser shows it.

    Attributes:
        document: when its script has run.
        console: its lines.
        picture: of its window, float32[height, width, 3].
    """

    document: str
    console: str
    picture: np.ndarray

    def has_colour(self, text: str) -> bool:
        """Whether a hundred points have a colour such as `#2f6db3`."""
        colour = np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return int((np.abs(self.picture - colour).max(axis=-1) < 0.01).sum()) > 100


def shown(page: Path, folder: Path, size: tuple[int, int], *options: str) -> Shown:
    """Opens a page in a window of that size."""
    browser = shutil.which(BROWSER)
    assert browser, f"install {BROWSER}; `make setup` does"
    picture = folder / "picture.png"
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--window-size={size[0]},{size[1]}", "--enable-logging=stderr"]
    command += ["--virtual-time-budget=2000", *options]
    command += [f"--screenshot={picture}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Shown(done.stdout, "\n".join(console), imread(picture)[..., :3])
