"""The cost of marks for steps that wrote NaN or infinity: `python -m benchmarks.mark_cost`.

Two artifacts of each model, of which one has the marks in its update kernels, take steps in turns
in one process. Times are of the processor, of one thread. The dense network at a batch of 4 is the
worst case: a third of its step is the update.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.output import about, introduce, terminal
from benchmarks.step_time.cases import case_of
from odtc.comparison.measures.measure import spread

_TURNS, _WARM_UP = 41, 3
_WIDTH = 2048
_MARKS = "odtc.frontend.updates.update_kernels.mark_where_not_finite"
_OPTIMIZERS = {"SGD": odtc.SGD(), "momentum": odtc.SGD(momentum=0.9), "Adam": odtc.Adam()}


def _dense() -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """Two square matrices with a rectifier between them, and a batch of 4."""
    rng = np.random.default_rng(0)
    weights = {n: 0.01 * rng.standard_normal((_WIDTH, _WIDTH), np.float32) for n in "ab"}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, _WIDTH]) for name in ("x", "y")
    )
    values = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "dense", [x], [y], values),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return model, rng.standard_normal((4, _WIDTH), np.float32), np.arange(4)


def main() -> int:
    """Measures, and prints a line for each model and optimizer."""
    introduce(terminal(), about(), f"1 thread, {_TURNS} pairs of steps")
    squeezenet = case_of("squeezenet", 8)
    cases = {
        "dense, batch 4": _dense(),
        "squeezenet, batch 8": (squeezenet.model, squeezenet.x, squeezenet.y),
    }
    with TemporaryDirectory() as folder:
        for name, (model, x, y) in cases.items():
            onnx.save(model, path := Path(folder) / "model.onnx")
            for rule, optimizer in _OPTIMIZERS.items():
                with mock.patch(_MARKS):
                    plain = _stepping(path, x, y, optimizer)
                marked = _stepping(path, x, y, optimizer)
                print(f"{name}, {rule}: {_compared(plain, marked)}", flush=True)
    return 0


def _stepping(path: Path, x: Any, y: np.ndarray, optimizer: Any) -> Callable[[], float]:
    """A step of a trainer of its own."""
    trainer = odtc.compile(path, batch=len(y), optimizer=optimizer).trainer(threads=1)
    return lambda: trainer.step(x, y, 1e-6)


def _compared(plain: Callable[[], float], marked: Callable[[], float]) -> str:
    ratios = []
    for turn in range(_WARM_UP + _TURNS):
        order = (plain, marked) if turn % 2 else (marked, plain)
        seconds = {step: _seconds(step) for step in order}
        ratios.append(seconds[marked] / seconds[plain])
    return f"{spread(ratios[_WARM_UP:]).text(digits=3)} times the time of a step without marks"


def _seconds(step: Callable[[], float]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
