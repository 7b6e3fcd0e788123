"""The jobs of examples/python, each on data that is drawn here: it learns, and is exported."""

from pathlib import Path

import pytest

from tests.examples.drawn import FOLDER, best, draw_shapes, draw_sounds, draw_tables, job

MOST_LINES = 25


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_job_is_short(path: Path):
    lines = path.read_text("utf-8").splitlines()[1:]
    assert len([line for line in lines if line.strip()]) <= MOST_LINES


def test_shapes_are_told_apart(tmp_path: Path):
    draw_shapes(tmp_path, 40, 11)
    said = job("images.py", tmp_path)
    assert best(said) > 0.9
    assert "class 1 " in said


def test_words_are_spotted(tmp_path: Path):
    draw_sounds(tmp_path, 200)
    said = job("keywords.py", tmp_path)
    assert best(said) > 0.9
    assert "word even" in said


def test_numbers_are_predicted(tmp_path: Path):
    draw_tables(tmp_path, 600, 101)
    assert best(job("regression.py", tmp_path)) > 0.7
