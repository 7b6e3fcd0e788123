"""For how many threads a step is made: what each costs, and what is said where cores are idle."""

import os
import re
import warnings

import pytest

import odtc
from odtc.backends import ordered
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts
from odtc.passes.checkpoint.problem import plan_of
from tests.cli.training.digits import BATCH, Digits

CORES = len(os.sched_getaffinity(0))
IDLE = "trainer: the step was compiled for 1 of the "


def test_plan_says_what_threads_cost(digits: Digits, run_json, capsys):
    """As many bytes as steps have that are compiled for so many."""
    argv = ["plan", str(digits.model), "--batch", str(BATCH), "--target", "host-cpu{threads=4}"]
    found = run_json(*argv)
    assert found["threads"] == 4
    assert [*found["by_threads"]] == ["1", "2", "4", "8"]
    assert found["by_threads"]["4"] == found["points"][0]["arena_bytes"]
    for threads in (1, 2):
        artifact = odtc.compile(digits.model, f"host-cpu{{threads={threads}}}", batch=BATCH)
        assert artifact.memory.arena_bytes == found["by_threads"][str(threads)]
    assert found["by_threads"]["1"] < found["by_threads"]["4"]
    assert main([*argv, "--micro-batches", "1"]) == ExitCode.OK
    said = capsys.readouterr().err
    assert "for at most 4 threads" in said
    assert re.search(r"[\d.]+ KiB with 1, [\d.]+ KiB with 2, [\d.]+ KiB with 4", said)


def test_what_threads_cost_takes_no_other_kernels(
    digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large nets, making their loops takes most of the time of a plan."""
    target, options = parse_target("host-cpu{threads=4}"), StepOptions(batch=BATCH)
    cuts = Cuts(read_source(digits.model, target, options, silent), silent, for_plans=True)
    own = next(iter(cuts)).problem
    monkeypatch.setattr(ordered, "run_pipeline", None)
    peaks = [cuts.peak_for(threads) for threads in (1, 2, 4, 8)]
    assert peaks == sorted(peaks)
    assert peaks[2] == plan_of(own, range(len(own.seconds))).peak


def test_inspect_says_for_how_many(digits: Digits, capsys):
    assert main(["inspect", str(digits.artifact)]) == ExitCode.OK
    (row,) = [s for s in capsys.readouterr().out.splitlines() if s.startswith("target ")]
    assert "threads=8" in row


def test_a_trainer_warns_of_idle_cores_at_the_line_that_makes_it(digits: Digits):
    artifact = odtc.compile(digits.model, "host-cpu{threads=1}", batch=BATCH)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artifact.trainer()
        artifact.trainer(threads=1)
        artifact.trainer(cores="all")
    told = [str(each.message) for each in caught if IDLE in str(each.message)]
    assert len(told) == (CORES > 1)
    for each in caught:
        assert each.filename == __file__
    for text in told:
        assert re.search(r"compile it for host-cpu\{\S*threads=(\d)\} to use \1$", text)
