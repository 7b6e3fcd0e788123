"""`LiveView`: what a terminal shows of a run, and that it is whole afterwards."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import odtc
from odtc.runtime_rpc.loop.view import live_view, vitals
from odtc.runtime_rpc.loop.view.points import Points
from tests.runtime_rpc.loop.models import classed, step_of

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
X, Y = classed(64)
RUN: dict[str, Any] = {"lr": 0.01, "epochs": 3, "validation": classed(20, 1)}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("view"), "cross-entropy", optimizer="adam")


def terminal(height: int = 30) -> tuple[io.StringIO, Console]:
    """A terminal, and what is written there."""
    written = io.StringIO()
    made = Console(file=written, force_terminal=True, width=80, height=height)
    return written, made


def shown(artifact: odtc.Artifact, console: Console, **options) -> None:
    artifact.trainer(threads=1).fit((X, Y), **RUN, callbacks=[odtc.LiveView(console)], **options)


def test_a_terminal_has_curves_and_a_line(artifact: odtc.Artifact):
    written, console = terminal()
    shown(artifact, console, metrics=["accuracy"])
    # The last picture is all that is left of them.
    last = written.getvalue().rpartition("\x1b[2K")[2]
    lines = last.splitlines()
    assert sum("|" in line for line in lines) == 10
    assert sum("o" in line for line in lines[:10]) >= 1
    assert lines[10] == ". loss  o val_loss"
    said = " ".join(lines[12:])
    assert said.startswith("step 24 of 24, epoch 3: loss ")
    assert all(part in said for part in ("val_loss ", "val_accuracy ", " steps/s", " MiB"))
    assert written.getvalue().count(HIDE) == written.getvalue().count(SHOW) == 1


def test_a_low_terminal_has_the_line_alone(artifact: odtc.Artifact):
    written, console = terminal(height=12)
    shown(artifact, console)
    assert ". loss" not in written.getvalue()
    assert "step 24 of 24" in written.getvalue()


def test_elsewhere_there_are_lines_now_and_then(
    artifact: odtc.Artifact, monkeypatch: pytest.MonkeyPatch
):
    written = io.StringIO()
    shown(artifact, Console(file=written, width=80))
    assert [line[:16] for line in written.getvalue().splitlines()] == [
        "step 1 of 24, ep",
        "step 24 of 24, e",
    ]
    assert "\x1b" not in written.getvalue()
    written = io.StringIO()
    dumb = Console(file=written, force_terminal=True, width=80, _environ={"TERM": "dumb"})
    shown(artifact, dumb)
    assert len(written.getvalue().splitlines()) == 2
    monkeypatch.setattr(live_view, "_LINE_SECONDS", 0)
    written = io.StringIO()
    shown(artifact, Console(file=written, width=80))
    assert len(written.getvalue().splitlines()) == 25


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_the_terminal_whole(artifact: odtc.Artifact, error: type[BaseException]):
    class Broken(odtc.Callback):
        def on_train_batch_end(self, run, step, loss):
            if step == 5:
                raise error

    written, console = terminal()
    trainer = artifact.trainer(threads=1)
    with pytest.raises(error):
        trainer.fit((X, Y), lr=0.1, callbacks=[odtc.LiveView(console), Broken()])
    assert written.getvalue().count(SHOW) == 1
    assert written.getvalue().rstrip().endswith(SHOW)


def test_a_terminal_that_is_gone_keeps_no_run_from_its_end(artifact: odtc.Artifact):
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=80)
        trainer = artifact.trainer(threads=1)

        def go_away(row: dict[str, float], console: Console = console) -> None:
            console.file = Gone()

        trainer.fit((X, Y), **RUN, callbacks=[odtc.LiveView(console), go_away])
        assert trainer.steps == 24


def test_a_run_that_is_taken_up_shows_what_was_measured_before(
    artifact: odtc.Artifact, tmp_path: Path
):
    path = tmp_path / "c"
    kept = [odtc.Checkpoint(path)]
    two: dict[str, Any] = RUN | {"epochs": 2}
    artifact.trainer(threads=1).fit((X, Y), **two, callbacks=kept)
    written, console = terminal()
    shown(artifact, console, resume=path)
    last = written.getvalue().rpartition("\x1b[2K")[2].splitlines()[:10]
    columns = [line.partition("|")[2] for line in last]
    assert sorted(n for line in columns for n, mark in enumerate(line) if mark == "o")[0] == 0


def test_points_are_bounded_and_their_means_are_exact():
    points = Points()
    for step in range(100_001):
        points.add(step, float(step))
    found = points.shown()
    assert len(found) <= 1024
    assert all(step == value for step, value in found)
    assert [*found] == sorted(found)
    few = Points()
    for step in range(3):
        few.add(step, 2.0)
    assert few.shown() == [(0, 2.0), (1, 2.0), (2, 2.0)]


def test_what_a_device_says_is_asked_for_now_and_then(
    artifact: odtc.Artifact, monkeypatch: pytest.MonkeyPatch
):
    session = artifact.trainer(threads=1).session
    looks = []
    real = vitals._look
    monkeypatch.setattr(vitals, "_look", lambda each: looks.append(1) or real(each))
    found = vitals.Vitals(session)
    texts = {found.text() for _ in range(100)}
    assert len(looks) == len(texts) == 1
    assert int(next(iter(texts)).partition(" MiB")[0]) > 10
