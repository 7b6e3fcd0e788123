"""An adapter learns a text, and its held-out perplexity follows that of PyTorch with PEFT."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.language_models.learning import Point, base_of, curves, draw, table_of

# How much a perplexity is rounded, and how many times as far as PyTorch's curves odtc's may part.
_ROUNDED, _AS_FAR = 1e-6, 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`")
def test_the_perplexity_of_text_that_is_held_out_falls_as_pytorchs(tmp_path: Path) -> None:
    points = curves(base_of(120), 40, 10, tmp_path, twins=1)
    own, other = ([getattr(each, name) for each in points] for name in ("odtc", "torch"))
    assert [each.step for each in points] == [0, 10, 20, 30, 40]
    assert own[-1] < 0.95 * own[0]
    # What parts PyTorch's own curves is rounding, which grows; odtc rounds elsewhere.
    apart = np.maximum.accumulate([most / least - 1 for least, most in (x.apart for x in points)])
    parted = np.abs(np.divide(own, other) - 1)
    assert (parted < _ROUNDED + _AS_FAR * apart).all(), (parted, apart)
    # The texts are fixed: over these it does not grow so far that it hides anything.
    assert (apart < 1e-5).all(), apart
    assert all(0 < each.error < 1e-5 for each in points[1:])


def test_both_curves_are_drawn(tmp_path: Path) -> None:
    points = [Point(0, 40.0, 40.0, (40.0, 40.0), 0.0), Point(20, 20.0, 20.5, (20.0, 21.0), 1e-7)]
    draw(points, "a title", tmp_path / "x.svg")
    assert "</svg>" in (tmp_path / "x.svg").read_text()
    assert table_of(points).row_count == 2


@pytest.mark.slow
def test_it_starts_in_a_process_of_its_own() -> None:
    """In that of the tests, torchvision can be imported anyway."""
    code = "from benchmarks.language_models.learning import base_of; base_of(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
