"""Kernels are measured as they are met in a step: with what they read in no cache."""

import functools
import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from odtc.autoschedule.tuning import running
from odtc.autoschedule.tuning.build import BuildOrder, build, kernel_text
from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput, measure
from odtc.autoschedule.tuning.running import KernelBench
from odtc.autoschedule.tuning.tasks import TuningTask, Writer, tasks_of
from odtc.backends.targets import parse_target
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession
from tests.timed import ROUNDS, figures, ratio

TARGET = "host-cpu{threads=1}"
# Of the layer: with 4 bytes each its weights take 576 KiB.
_SIZE = 384


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TuningTask:
    """A dense layer of one row: each of its weights, which fit near a core, is read once."""
    weights = np.full((_SIZE, _SIZE), 0.01, np.float32)
    image, result = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, _SIZE]) for name in "xy"
    )
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"])],
        "dense",
        [image],
        [result],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path_factory.mktemp("dense") / "dense.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    step = prepare(path, parse_target(TARGET), StepOptions(batch=1), lambda _: None)
    return next(each for each in tasks_of(*step.kernels) if _reads_weights(each))


def _reads_weights(task: TuningTask) -> bool:
    *read, _ = task.kernel.params
    return any([int(size) for size in each.shape] == [_SIZE, _SIZE] for each in read)


@pytest.fixture(scope="module")
def measured(task: TuningTask, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], float]:
    """The least seconds of a call of two kernels that are alike, measured in turns."""
    folder = tmp_path_factory.mktemp("kernels")
    writer = Writer(parse_target(TARGET).resolved())
    paths = [
        build(writer, BuildOrder(kernel_text(task.kernel), {}, folder / f"{number}.so"))
        for number in range(2)
    ]
    *read, _ = task.kernel.params
    inputs = tuple((tuple(int(n) for n in each.shape), str(each.dtype)) for each in read)
    session = LocalSession()
    session.use_threads(1)
    bench = KernelBench(session, functools.partial(kernels_on, session))
    config = MeasureConfig(least=5, most=5)

    def least() -> float:
        (outcome,) = measure(bench, MeasureInput(paths[0], (paths[1],), inputs), config)
        assert not outcome.reason
        assert len(outcome.seconds) == len(outcome.usual) == 5
        return min(outcome.seconds)

    return least


# Bytes that are copied between calls, which takes many milliseconds.
_MANY = 1 << 26


@pytest.mark.parametrize("flushed", [0, running.FLUSHED, _MANY])
def test_a_kernel_is_measured_near_the_core_and_far_from_it(
    measured: Callable[[], float], flushed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FLUSHED", flushed)
    assert measured() > 0


@pytest.mark.timed
def test_a_call_finds_nothing_near_the_core(
    measured: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying between calls takes a time of its own, which is not the kernel's."""

    def against_warm() -> float:
        cold = measured()
        with monkeypatch.context() as near:
            near.setattr(running, "FLUSHED", 0)
            return cold / measured()

    def far() -> float:
        with monkeypatch.context() as more:
            more.setattr(running, "FLUSHED", _MANY)
            return measured()

    cold = figures(against_warm() for _ in range(ROUNDS))
    assert cold.median > 1.1, cold
    kernel = figures(far() for _ in range(ROUNDS))
    assert kernel.median < 0.001, kernel
    copying = ratio(far, measured, clock=time.perf_counter)
    assert copying.median > 2, copying
