"""`odtc check` refuses what `odtc compile` would refuse, with the same words and the same code."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.cli.main import main
from odtc.core.errors import ExitCode

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
W = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
Model = Callable[[], onnx.ModelProto]


def value(name: str, shape: Sequence[int | str], dtype: int = F32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op_type: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, outputs, weights, opset: int = 17) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def linear(outputs: Sequence[onnx.ValueInfoProto] = ()) -> onnx.ModelProto:
    product = node("MatMul", "x w", "y")
    return model([product], [value("x", ["N", 8])], outputs or [value("y", ["N", 3])], {"w": W})


def batch_in_a_reshape() -> onnx.ModelProto:
    nodes = [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")]
    weights = {"w": W, "s": np.array([1, 8])}
    return model(nodes, [value("x", ["N", 2, 4])], [value("y", ["N", 3])], weights)


def classes() -> onnx.ModelProto:
    nodes = [node("MatMul", "x w", "y"), node("ArgMax", "y", "p", axis=1)]
    return model(nodes, [value("x", ["N", 8])], [value("p", ["N", 1], I64)], {"w": W})


def without_weights() -> onnx.ModelProto:
    return model([node("Tanh", "x", "y")], [value("x", ["N", 8])], [value("y", ["N", 8])], {})


# Name: the model, the options, and the first words of what both say.
REFUSED: dict[str, tuple[Model, list[str], ExitCode, str]] = {
    "an integer output": (classes, [], ExitCode.MODEL, "cross-entropy needs a float32 output"),
    "no weights": (without_weights, [], ExitCode.USAGE, "no trainable parameter matches '*'"),
    "no such weight": (linear, ["--train", "v"], ExitCode.USAGE, "no trainable parameter matches"),
    "no such group": (
        linear,
        ["--group", "v{lr-factor=2}"],
        ExitCode.USAGE,
        "no trained parameter",
    ),
    "parts of a batch": (
        linear,
        ["--micro-batches", "3"],
        ExitCode.USAGE,
        "3 micro-batches do not divide a batch of 4",
    ),
    "no such output": (linear, ["--loss", "z=mse"], ExitCode.USAGE, "the model has no output 'z'"),
}


@pytest.fixture
def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[tuple[int, str]]]:
    """What `check` and `compile` answer: exit code and error."""
    monkeypatch.chdir(tmp_path)

    def run(made: onnx.ModelProto, *options: str) -> list[tuple[int, str]]:
        onnx.save(made, "m.onnx")
        answers = []
        for command in (["check", "m.onnx"], ["compile", "m.onnx", "-o", "m.odtc"]):
            capsys.readouterr()
            code = main([*command, "--batch", "4", *options])
            answers.append((code, capsys.readouterr().err))
        return answers

    return run


@pytest.mark.parametrize("name", REFUSED)
def test_check_refuses_with_the_words_of_compile(name: str, both) -> None:
    made, options, code, words = REFUSED[name]
    (checked, said), (compiled, refusal) = both(made(), *options)
    assert checked == compiled == code
    assert said.startswith(f"error: {words}")
    assert refusal.endswith(said)


def chain(length: int) -> onnx.ModelProto:
    names = [f"c{at}" for at in range(length)]
    nodes = [
        node("MatMul", "x v", "c0"),
        *(node("Tanh", *pair) for pair in pairwise(names)),
        node("MatMul", f"{names[-1]} w", "y"),
    ]
    weights = {"v": np.eye(8, dtype=np.float32), "w": W}
    return model(nodes, [value("x", ["N", 8])], [value("y", ["N", 3])], weights)


def test_time_and_memory_follow_the_nodes(tmp_path: Path) -> None:
    """10,000 nodes in seconds; what grew with their square took minutes."""
    onnx.save(chain(10_000), tmp_path / "m.onnx")
    command = [sys.executable, "-m", "odtc", "check", str(tmp_path / "m.onnx")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    assert used.ru_utime < 20
    assert used.ru_maxrss < 500 << 10
