"""The jobs of examples/python on the emulated phone: all that they do here, they do there."""

from pathlib import Path

import pytest

from odtc.runtime_rpc.standin.phone import EmulatedPhone
from tests.examples.drawn import best, draw_shapes, draw_sounds, draw_tables, job

pytestmark = pytest.mark.device
TARGET = "android-cpu"


@pytest.mark.slow
def test_shapes(phone: EmulatedPhone, tmp_path: Path) -> None:
    draw_shapes(tmp_path, 6, 3)
    said = job("images.py", tmp_path, TARGET, phone.url)
    assert "val_accuracy" in said
    assert 0 <= best(said) <= 1


@pytest.mark.slow
def test_words(phone: EmulatedPhone, tmp_path: Path) -> None:
    draw_sounds(tmp_path, 60)
    said = job("keywords.py", tmp_path, TARGET, phone.url)
    assert "val_f1" in said
    assert 0 <= best(said) <= 1


def test_numbers(phone: EmulatedPhone, tmp_path: Path) -> None:
    draw_tables(tmp_path, 48, 9)
    said = job("regression.py", tmp_path, TARGET, phone.url)
    assert "val_r2" in said
    assert best(said) <= 1
