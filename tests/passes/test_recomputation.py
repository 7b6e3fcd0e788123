"""The recomputation problem of a step: its kernels, and where the backward pass begins."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.backends import ordered
from odtc.backends.cost.call_cost import call_cost
from odtc.backends.targets import parse_target
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts

LAYERS, SIZE = 12, 16


def _alike(path: Path, *, is_normalised: bool = False) -> Path:
    """A model whose layers are the same, but for their weights."""
    weights = [np.full((SIZE, SIZE), 0.1, np.float32) for _ in range(LAYERS)]
    named = [numpy_helper.from_array(weight, f"w{n}") for n, weight in enumerate(weights)]
    nodes = []
    for n in range(LAYERS):
        last = f"h{n}"
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [last]))
        if is_normalised:
            learned = [f"{name}{n}" for name in ("scale", "shift", "mean", "variance")]
            named += [numpy_helper.from_array(np.ones(SIZE, np.float32), each) for each in learned]
            nodes.append(helper.make_node("BatchNormalization", [last, *learned], [f"n{n}"]))
            last = f"n{n}"
        nodes.append(helper.make_node("Relu", [last], [f"x{n + 1}"]))
    shape = ["N", SIZE]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("x0", f"x{LAYERS}")
    ]
    graph = helper.make_graph(nodes, "alike", ends[:1], ends[1:], named)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_calls_of_one_kernel_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()

    def counting(*given: object) -> Callable[..., object]:
        cost = call_cost(*given)  # pyright: ignore[reportArgumentType]

        def counted(kernel: object) -> object:
            asked[str(kernel)] += 1
            return cost(kernel)  # pyright: ignore[reportArgumentType]

        return counted

    monkeypatch.setattr(ordered, "call_cost", counting)
    target, path = parse_target("host-cpu"), _alike(tmp_path / "m.onnx")
    source = read_source(path, target, StepOptions(batch=4), silent)
    problem = next(iter(Cuts(source, silent))).problem
    assert len(problem.seconds) > len(asked) >= 4
    assert set(asked.values()) == {1}


@pytest.mark.parametrize("is_normalised", [False, True])
@pytest.mark.parametrize("loss", ["cross-entropy", "cross-entropy{ignore_index=-1}", "mse"])
def test_the_backward_pass_begins_where_most_of_it_does(
    loss: str, is_normalised: bool, tmp_path: Path
) -> None:
    """Neither at a label's share before the forward pass nor before running statistics are set."""
    path = _alike(tmp_path / "m.onnx", is_normalised=is_normalised)
    options = StepOptions(batch=256, loss=loss, micro_batches=1)
    source = read_source(path, parse_target("host-cpu"), options, silent)
    problem = next(iter(Cuts(source, silent, for_plans=True))).problem
    # A product; a normalisation with its activation, and updates of a mean and a variance.
    forward = LAYERS * (4 if is_normalised else 1)
    # Behind it the loss.
    assert forward + 2 <= problem.turn <= forward + 8
