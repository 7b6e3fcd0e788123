"""The benchmark of changes between plans, on a small network."""

from pathlib import Path

import onnx
import pytest

from benchmarks.budget import switching
from benchmarks.budget.switching import Changes, draw, measured, table_of
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from benchmarks.step_time.cases import StepCase


@pytest.mark.slow
def test_changes_are_timed_and_change_no_loss(tmp_path: Path) -> None:
    entry = SMALL["char_cnn_lstm"]
    module = make(entry)
    x, y = next(batches(entry))
    export(module, x, tmp_path / "model.onnx")
    case = StepCase("small", onnx.load(tmp_path / "model.onnx"), x, y, entry.lr, entry.loss)
    plans = measured(case, 2, tmp_path)
    assert len(plans) > 1
    assert {plan.direction for plan in plans} == {"up", "down"}
    assert all(len(plan.changed) == len(plan.same) > 0 for plan in plans)
    # All but the smallest from less, all but the largest from more.
    count = len(plans) // 2 + 1
    assert sum(len(plan.changed) for plan in plans) == 2 * count * (count - 1)
    assert len({loss for plan in plans for pair in plan.losses for loss in pair}) == 1
    assert table_of(plans).row_count == len(plans)
    draw(plans, "changes", tmp_path / "changes.svg")
    assert (tmp_path / "changes.svg").read_text().startswith("<?xml")


def test_a_step_with_one_plan_is_left_out(tmp_path: Path, monkeypatch, capsys) -> None:
    files = ("--json", str(tmp_path / "x.json"), "--picture", str(tmp_path / "x.svg"))
    monkeypatch.setattr("sys.argv", ["switching", "--networks", "digits", "--rounds", "1", *files])
    assert switching.main() == 0
    assert "digits has only one plan" in capsys.readouterr().out


def test_the_ratio_is_of_pairs() -> None:
    assert Changes("one", 1, "up", [2.0, 3.0], [1.0, 3.0]).ratio.median == pytest.approx(1.5)
