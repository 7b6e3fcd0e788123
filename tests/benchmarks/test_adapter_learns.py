"""An adapter learns a text, and its held-out perplexity follows that of PyTorch with PEFT."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.language_models.learning import Point, base_of, curves, draw, table_of


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`")
def test_the_perplexity_of_text_that_is_held_out_falls_as_pytorchs(tmp_path: Path) -> None:
    points = curves(base_of(40), 40, 10, tmp_path)
    own, other = ([getattr(each, name) for each in points] for name in ("odtc", "torch"))
    assert [each.step for each in points] == [0, 10, 20, 30, 40]
    np.testing.assert_allclose(own, other, rtol=1e-4)
    assert own[-1] < 0.95 * own[0]
    # PyTorch's own curves are as near each other, and each gradient is that of float64.
    assert all(most - least < 1e-4 * most for least, most in (each.apart for each in points))
    assert all(0 < each.error < 1e-5 for each in points[1:])


def test_both_curves_are_drawn(tmp_path: Path) -> None:
    points = [Point(0, 40.0, 40.0, (40.0, 40.0), 0.0), Point(20, 20.0, 20.5, (20.0, 21.0), 1e-7)]
    draw(points, "a title", tmp_path / "x.svg")
    assert "</svg>" in (tmp_path / "x.svg").read_text()
    assert table_of(points).row_count == 2
