"""The jobs of examples/python, each on data that is drawn here: it learns, and is exported."""

import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

FOLDER = Path(__file__).parents[2] / "examples" / "python"
RANDOM = np.random.default_rng(0)
MOST_LINES = 25


def job(name: str, folder: Path) -> str:
    """What a job prints; its best row is that of the checkpoint that it restored."""
    argv = [sys.executable, str(FOLDER / name)]
    found = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert (folder / "best.ckpt").exists()
    return found.stdout


def best(said: str) -> float:
    (found,) = re.findall(r"best \S+ (\S+)$", said.strip())
    return float(found)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_job_is_short(path: Path):
    lines = path.read_text("utf-8").splitlines()[1:]
    assert len([line for line in lines if line.strip()]) <= MOST_LINES


def shape(number: int) -> Image.Image:
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


def test_shapes_are_told_apart(tmp_path: Path):
    for part, count in (("train", 40), ("test", 11)):
        for number, name in enumerate(("disc", "flat", "tall")):
            folder = tmp_path / "images" / part / name
            folder.mkdir(parents=True)
            for each in range(count):
                shape(number).save(folder / f"{each}.png")
    shape(1).save(tmp_path / "image.png")
    said = job("images.py", tmp_path)
    assert best(said) > 0.9
    assert "class 1 " in said


def sound(word: int) -> np.ndarray:
    """A tone that rises, falls or stays, in noise."""
    time = np.arange(8000) / 8000
    begin, rise = RANDOM.uniform(400, 900), (0, 900, -300)[word]
    phase = 2 * np.pi * (begin * time + rise * time**2 / 2)
    wanted = RANDOM.uniform(0.2, 0.5) * np.sin(phase) + 0.03 * RANDOM.standard_normal(8000)
    return (wanted * 2**15).clip(-(2**15), 2**15 - 1).astype("<i2")


def test_words_are_spotted(tmp_path: Path):
    (tmp_path / "sounds").mkdir()
    for number in range(200):
        word = ("even", "rising", "sinking")[number % 3]
        with wave.open(str(tmp_path / "sounds" / f"{word}-{number:03}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(sound(number % 3).tobytes())
    said = job("keywords.py", tmp_path)
    assert best(said) > 0.9
    assert "word even" in said


def test_numbers_are_predicted(tmp_path: Path):
    for name, count in (("train.csv", 600), ("test.csv", 101)):
        x = RANDOM.standard_normal((count, 8))
        y = x[:, 0] * x[:, 1] + x[:, 2] - 0.5 * np.abs(x[:, 3])
        header = ",".join([*(f"f{n}" for n in range(8)), "y"])
        table = np.column_stack([x, y])
        np.savetxt(tmp_path / name, table, "%.5f", ",", header=header, comments="")
    assert best(job("regression.py", tmp_path)) > 0.7
