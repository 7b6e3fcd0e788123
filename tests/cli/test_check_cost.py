"""`odtc check` takes seconds and little memory: it is asked first, and on any machine."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from benchmarks.check_cost import chain, check
from benchmarks.models.decoder import DecoderShape, decoder
from odtc.backends.targets import parse_target
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from tests.calls import calls_of
from tests.timed import figures

TARGET = parse_target("host-cpu")
_MB = 1_000_000


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory):
    """The cost of a check of one node: most of it is the import of TVM."""
    path = tmp_path_factory.mktemp("least") / "m.onnx"
    onnx.save(chain(0), path)
    return check(path)


# MB beside those of one node, and seconds of a processor, of which 3.5 are needed for ten thousand
# nodes. Thirty layers are those of SmolLM2-135M, over fewer features.
_LARGE = {
    "ten thousand nodes": (lambda: chain(10_000), 85, 8.0),
    "thirty layers": (lambda: decoder(DecoderShape(hidden=36, inner=96, vocabulary=512)), 70, 6.0),
}


@pytest.mark.parametrize(("made", "most", "_"), _LARGE.values(), ids=_LARGE)
def test_a_large_model_takes_little_memory(made, most: int, _, tmp_path: Path, least) -> None:
    onnx.save(made(), tmp_path / "m.onnx")
    assert check(tmp_path / "m.onnx").peak_bytes - least.peak_bytes < most * _MB


@pytest.mark.timed
@pytest.mark.parametrize(("made", "_", "most"), _LARGE.values(), ids=_LARGE)
def test_a_large_model_takes_seconds(made, _, most: float, tmp_path: Path) -> None:
    onnx.save(made(), tmp_path / "m.onnx")
    found = figures(check(tmp_path / "m.onnx").seconds for _ in range(5))
    assert found.median < most, found


@pytest.mark.parametrize("apart", [False, True])
def test_weights_are_in_memory_once(tmp_path: Path, least, apart: bool) -> None:
    """In the file itself, and in one of external data."""
    weight = np.full((4096, 4096), 0.5, np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", 4096), ("y", 4096))
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    tensors = [numpy_helper.from_array(weight, "w")]
    model = helper.make_model(
        helper.make_graph([node], "g", ends[:1], ends[1:], tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=apart, location="m.data")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    cost = check(tmp_path / "m.onnx")
    assert cost.peak_bytes - least.peak_bytes < 1.3 * size


def _calls(path: Path, length: int) -> int:
    """Python's calls in a check of a chain."""
    onnx.save(chain(length), path)
    return calls_of(lambda: examine(str(path), TARGET, StepOptions()))


def test_a_node_costs_so_many_calls(tmp_path: Path) -> None:
    """The same on any machine, and for any number of nodes: some 1,000, of all walks together."""
    path = tmp_path / "m.onnx"
    _calls(path, 10)
    few, more, many = (_calls(path, length) for length in (60, 160, 360))
    assert (more - few) / 100 < 1300
    assert (many - more) / 200 < 1.05 * (more - few) / 100


def _normalised() -> onnx.ModelProto:
    """A convolution and a batch normalisation, in whose place there is another call by then."""
    rng = np.random.default_rng(0)
    weights = {"conv.weight": rng.standard_normal((4, 3, 1, 1)).astype(np.float32)}
    names = [f"norm.{name}" for name in ("weight", "bias", "running_mean", "running_var")]
    weights |= {name: rng.uniform(0.5, 1, 4).astype(np.float32) for name in names}
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *names], ["n"]),
        helper.make_node("ReduceMean", ["n"], ["y"], axes=[2, 3], keepdims=0),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["N", 3, 8, 8]), ("y", ["N", 4]))
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "made",
    [_normalised, lambda: decoder(DecoderShape(layers=1, hidden=36, inner=96, vocabulary=512))],
    ids=["normalised", "decoder"],
)
def test_the_gradient_pass_is_not_asked(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as long as all the rest; the rules alone can refuse."""

    def gradient(*_: object) -> None:
        raise AssertionError("the pass runs")

    monkeypatch.setattr(relax.transform, "Gradient", gradient)
    onnx.save(made(), tmp_path / "m.onnx")
    assert examine(str(tmp_path / "m.onnx"), TARGET, StepOptions()).trainable
