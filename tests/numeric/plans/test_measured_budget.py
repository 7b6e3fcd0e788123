"""Plans by measured times: what runs again is what is cheap on the device, not by a model."""

import re
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import odtc
from odtc.autoschedule.tuning.database import add
from odtc.autoschedule.tuning.record import Record, place_of
from odtc.autoschedule.tuning.target_records import known_device
from odtc.autoschedule.tuning.tasks import tasks_of
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from tests.numeric.plans.test_memory_budget import tower

TARGET = "host-cpu{threads=1}"
CONVOLUTION = "convolution"


def test_calls_that_are_dear_on_the_device_run_again_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same step with records that say that its convolutions are cheap, or dear."""
    path = tmp_path / "tower.onnx"
    onnx.save(tower(3), path)
    step = prepare(path, parse_target(TARGET), StepOptions(), lambda _: None)
    tasks = tasks_of(*step.kernels)
    target = step.source.target
    place = place_of(target, known_device(target))
    assert place.device is not None

    where = (place.target, place.device, place.odtc, place.tvm)

    def database(name: str, ratio: float) -> Path:
        for task in tasks:
            its = ratio if task.workload.startswith(CONVOLUTION) else 1.0
            seconds = (its * task.modelled,)
            kept = Record(task.workload, *where, {"tile": (9, 9)}, seconds, seconds)
            add(tmp_path / name, [replace(kept, modelled=task.modelled)])
        return tmp_path / name

    cheap, dear = database("cheap", 1e-3), database("dear", 1e3)
    common = (str(path), "--target", TARGET, "--micro-batches", "1")
    assert main(["plan", *common, "--database", str(dear)]) == 0
    printed = capsys.readouterr()
    measured = sum(task.calls for task in tasks)
    assert f"times are measured of {measured} calls, else those of a model" in printed.err
    whole = int(re.findall(r"[\d,]{4,}", printed.out)[0].replace(",", ""))
    calls = {}
    for file in (cheap, dear):
        made = odtc.compile(path, TARGET, memory_budget=whole * 3 // 4, database=file)
        calls[file] = sum(CONVOLUTION in name for name in made.memory.plan.calls)
        assert not made.manifest.tuned
        assert f"; {measured} of " in made.manifest.notes[-1]
        assert made.manifest.notes[-1].endswith(" calls have measured times")
    assert calls[dear] < calls[cheap]
