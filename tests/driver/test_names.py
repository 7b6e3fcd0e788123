"""All tensors of a step have names of their own: what is fed is found by its name."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode, ModelError
from odtc.core.specs import free_name

SAMPLES = 8


def model_of(path: Path, x: str, weight: str = "w", scale: str | None = None) -> Path:
    """y = x @ weight, perhaps times another input."""
    nodes = [helper.make_node("MatMul", [x, weight], ["m" if scale else "y"])]
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["N", 4])]
    if scale:
        nodes.append(helper.make_node("Mul", ["m", scale], ["y"]))
        inputs.append(helper.make_tensor_value_info(scale, TensorProto.FLOAT, ["N", 1]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    values = [numpy_helper.from_array(np.full((4, 3), 0.5, np.float32), weight)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, values)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((SAMPLES, 4), np.float32), np.arange(SAMPLES) % 3


def test_names_are_those_of_one_tensor_each(tmp_path: Path) -> None:
    artifact = odtc.compile(model_of(tmp_path / "m.onnx", "label", "lr", "step"), batch=4)
    names = [item.spec.name for item in artifact.manifest.arguments]
    assert names == ["label", "step", "label_of_y", "lr_2", "step_2", "lr"]
    assert "the label of the output 'y' is called 'label_of_y'" in artifact.manifest.notes[-1]


def test_what_is_called_label_is_fed_and_its_labels_too(
    tmp_path: Path, data: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    (x, y), places = data, {}
    for name in ("x", "label"):
        artifact = odtc.compile(model_of(tmp_path / "m.onnx", name), batch=4)
        artifact.save(tmp_path / f"{name}.odtc")
        trainer = artifact.trainer(threads=1)
        places[name] = [trainer.step(x[:4], y[:4], lr=0.1) for _ in range(3)]
        # By their names, as a file of samples has them.
        label = artifact.manifest.labels[0].spec.name
        for its in (label, "y"):
            arrays: dict[str, Any] = {name: x, its: y}
            np.savez(tmp_path / "d.npz", **arrays)
            argv = ["train", tmp_path / f"{name}.odtc", "--data", tmp_path / "d.npz", "--steps", 2]
            assert main([*map(str, argv), "--lr", "0.1"]) == ExitCode.OK
    assert places["x"] == places["label"]
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "label.odtc")]) == ExitCode.OK
    assert "label_of_y: int32[4], one of 3 classes" in capsys.readouterr().out


def test_an_array_is_not_both_an_input_and_a_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An input called y: the labels would be read from the inputs' array, of the same shape."""
    path = model_of(tmp_path / "m.onnx", "y_")
    model = onnx.load(path)
    for node in model.graph.node:
        node.input[0], node.output[0] = "y", "z"
    model.graph.input[0].name, model.graph.output[0].name = "y", "z"
    onnx.save(model, path)
    odtc.compile(path, batch=4, loss="mse").save(tmp_path / "y.odtc")
    x, y = np.zeros((2, SAMPLES, 4), np.float32)
    argv = ["train", tmp_path / "y.odtc", "--data", tmp_path / "d.npz", "--steps", 1, "--lr", 0.1]
    np.savez(tmp_path / "d.npz", x=x, y=y[:, :3])
    assert main([*map(str, argv)]) == ExitCode.DATA
    assert "the array y would be both the input y and the label label" in capsys.readouterr().err
    np.savez(tmp_path / "d.npz", y=x, label=y[:, :3])
    assert main([*map(str, argv)]) == ExitCode.OK


def test_an_input_is_not_called_like_a_state(tmp_path: Path) -> None:
    path = model_of(tmp_path / "m.onnx", "momentum/w")
    with pytest.raises(ModelError, match="the input has the name under which the optimizer's"):
        odtc.compile(path, batch=4, optimizer="sgd{momentum=0.9}")
    names = [i.spec.name for i in odtc.compile(path, batch=4).manifest.arguments]
    assert names[0] == "momentum/w"


def test_a_free_name_is_the_first_that_is() -> None:
    assert free_name("a", []) == "a"
    assert free_name("a", ["a", "a_2", "a_4"]) == "a_3"
