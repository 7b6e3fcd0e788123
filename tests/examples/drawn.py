"""What the jobs of examples/python train on, drawn: shapes, tones and a table; and the jobs."""

import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

FOLDER = Path(__file__).parents[2] / "examples" / "python"
RANDOM = np.random.default_rng(0)


def job(name: str, folder: Path, *where: str) -> str:
    """What a job prints; its best row is that of the checkpoint that it restored.

    Args:
        name: of the script.
        folder: with its data.
        where: a target and the URL of a device; this machine by default.
    """
    argv = [sys.executable, str(FOLDER / name), *where]
    found = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert (folder / "best.ckpt").exists()
    return found.stdout


def best(said: str) -> float:
    """The metric that a job prints at its end."""
    (found,) = re.findall(r"best \S+ (\S+)$", said.strip())
    return float(found)


def draw_shapes(folder: Path, train: int, test: int) -> None:
    """So many images of each class, and one more."""
    for part, count in (("train", train), ("test", test)):
        for number, name in enumerate(("disc", "flat", "tall")):
            inside = folder / "images" / part / name
            inside.mkdir(parents=True)
            for each in range(count):
                _shape(number).save(inside / f"{each}.png")
    _shape(1).save(folder / "image.png")


def draw_sounds(folder: Path, count: int) -> None:
    """So many words."""
    (folder / "sounds").mkdir()
    for number in range(count):
        word = ("even", "rising", "sinking")[number % 3]
        with wave.open(str(folder / "sounds" / f"{word}-{number:03}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(_sound(number % 3).tobytes())


def draw_tables(folder: Path, train: int, test: int) -> None:
    """So many rows."""
    for name, count in (("train.csv", train), ("test.csv", test)):
        x = RANDOM.standard_normal((count, 8))
        y = x[:, 0] * x[:, 1] + x[:, 2] - 0.5 * np.abs(x[:, 3])
        header = ",".join([*(f"f{n}" for n in range(8)), "y"])
        table = np.column_stack([x, y])
        np.savetxt(folder / name, table, "%.5f", ",", header=header, comments="")


def _shape(number: int) -> Image.Image:
    """A bright shape of a class on noise."""
    noise = RANDOM.integers(0, 60, (32, 32, 3)).astype(np.uint8)
    image = Image.fromarray(noise)
    draw, (x, y) = ImageDraw.Draw(image), RANDOM.integers(2, 12, 2)
    box = (x, y, x + 16, y + 16)
    colour = tuple(RANDOM.integers(150, 255, 3).tolist())
    if number == 0:
        draw.ellipse(box, fill=colour)
    elif number == 1:
        draw.rectangle((x, y + 6, x + 16, y + 10), fill=colour)
    else:
        draw.rectangle((x + 6, y, x + 10, y + 16), fill=colour)
    return image


def _sound(word: int) -> np.ndarray:
    """A tone that rises, falls or stays, in noise."""
    time = np.arange(8000) / 8000
    begin, rise = RANDOM.uniform(400, 900), (0, 900, -300)[word]
    phase = 2 * np.pi * (begin * time + rise * time**2 / 2)
    wanted = RANDOM.uniform(0.2, 0.5) * np.sin(phase) + 0.03 * RANDOM.standard_normal(8000)
    return (wanted * 2**15).clip(-(2**15), 2**15 - 1).astype("<i2")
