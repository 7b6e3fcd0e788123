"""`odtc train` where a loss ignores labels: what it prints, notes and logs of its losses."""

import json
from pathlib import Path

import numpy as np
import pytest

from odtc.cli.main import main
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(48)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact, and samples of which few have a label, or none."""
    folder = tmp_path_factory.mktemp("missing")
    loss = "cross-entropy{ignore-index=-100}"
    step_of(folder, loss, optimizer="adamw").save(folder / "a.odtc")
    few, none = np.full_like(Y, -100), np.full_like(Y, -100)
    few[:6] = Y[:6]
    np.savez(folder / "few.npz", x=X, y=few)
    np.savez(folder / "none.npz", x=X, y=none)
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def train(*options: str) -> int:
    return main(["train", "a.odtc", "--lr", "0.01", *options])


def test_a_run_notes_batches_without_labels(here: Path, capsys: pytest.CaptureFixture[str]):
    asked = ("--data", "few.npz", "--epochs", "3", "--eval-data", "none.npz")
    assert train(*asked, "--log", "log", "--json") == 0
    printed = capsys.readouterr()
    notes = [line for line in printed.err.splitlines() if "no label" in line]
    first, total, held = notes
    lines = [json.loads(line) for line in (here / "log").read_text().splitlines()]
    steps = [line for line in lines if "row" not in line]
    without = [line["step"] for line in steps if line["loss"] is None]
    assert first.startswith(f"note: step {without[0]}: no label of its batch counts")
    said = f"note: the batches of {len(without)} of 18 steps had no label that counts, the first of"
    assert total.startswith(f"{said} them at step {without[0]}")
    assert held == ("note: none.npz: no label of the validation data counts, so its loss is NaN")
    found = json.loads(printed.out)
    assert found["loss"] == next(step["loss"] for step in steps[::-1] if step["loss"] is not None)
    assert found["eval_loss"] is None
    assert found["accuracy"] is None
    assert all(row["loss"] > 0 for row in found["history"])


def test_a_validation_without_labels_is_no_best_one(here: Path, capsys: pytest.CaptureFixture[str]):
    watched = ("--validation", "none.npz", "--best", "best.ckpt", "--patience", "1")
    assert train("--data", "few.npz", "--epochs", "2", *watched) == 0
    printed = capsys.readouterr().err
    assert "note: ended after step 6: val_loss is NaN for 1 validation" in printed
    assert "best.ckpt is not written" in printed
    assert not (here / "best.ckpt").exists()


def test_a_search_for_the_rate_notes_them(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "a.odtc", "--data", "few.npz", "--find-lr", "--json"]) == 0
    printed = capsys.readouterr()
    (note,) = (line for line in printed.err.splitlines() if "no label" in line)
    assert note.startswith("note: step ")
    # At large rates the few labels are learned, to a loss of 0.
    assert min(point["loss"] for point in json.loads(printed.out)["curve"][:20]) > 0
