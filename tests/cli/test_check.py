"""`odtc check` refuses what `odtc compile` would refuse, with the same words and the same code."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
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


def scores_and_others() -> onnx.ModelProto:
    """A classifier whose file has operators of its own after the scores."""
    nodes = [
        node("MatMul", "x w", "scores"),
        node("ArgMax", "scores", "p", axis=1),
        node("Names", "p", "label", domain="com.example"),
        node("Pairs", "scores", "map", domain="com.example"),
    ]
    outputs = [value("label", ["N", 1], I64), value("map", ["N", 3]), value("scores", ["N", 3])]
    made = model(nodes, [value("x", ["N", 8])], outputs, {"w": W})
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    return made


def only_foreign() -> onnx.ModelProto:
    """A file without default operators, which it names no version of."""
    nodes = [node("Own", "x w", "y", domain="com.example")]
    made = model(nodes, [value("x", ["N", 8])], [value("y", ["N", 3])], {"w": W})
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    return made


def old(ir: int, opset: int) -> onnx.ModelProto:
    """A file of an old version, whose initializer is no input."""
    made = model(
        linear().graph.node, [value("x", ["N", 8])], [value("y", ["N", 3])], {"w": W}, opset
    )
    made.ir_version = ir
    return made


# Name: the model, the options, and the first words of what both say.
REFUSED: dict[str, tuple[Model, list[str], ExitCode, str]] = {
    "an integer output": (classes, [], ExitCode.MODEL, "cross-entropy needs a float32 output"),
    "a batch in a reshape": (
        batch_in_a_reshape,
        [],
        ExitCode.UNSUPPORTED,
        "[4, 2, 4] cannot become [1, 8]: the batch",
    ),
    "other domains only": (only_foreign, [], ExitCode.UNSUPPORTED, "operator Own is of the domain"),
    "a loss on a map": (
        scores_and_others,
        ["--loss", "map=mse"],
        ExitCode.UNSUPPORTED,
        "the output 'map' cannot be trained: it needs -> map (Pairs) of the domain 'com.example'",
    ),
    "a loss on an input": (
        lambda: linear([value("x", ["N", 8]), value("y", ["N", 3])]),
        ["--loss", "x=mse"],
        ExitCode.UNSUPPORTED,
        "the output 'x' cannot be trained: it is an input or a constant of the model",
    ),
    "no weights": (without_weights, [], ExitCode.USAGE, "holds no weights that can be trained"),
    "an empty text": (linear, ["--precision", ""], ExitCode.USAGE, "--precision is given an empty"),
    "a huge seed": (linear, ["--seed", "9" * 30], ExitCode.USAGE, "seed is an integer of 100 bits"),
    "no such weight": (linear, ["--train", "v"], ExitCode.USAGE, "no trainable parameter matches"),
    "no such group": (
        linear,
        ["--groups", "v{lr-factor=2}"],
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
) -> Callable[..., list[tuple[int, str, str]]]:
    """Returns a function that runs `check` and `compile`: exit code, output and errors of each."""
    monkeypatch.chdir(tmp_path)

    def run(made: onnx.ModelProto, *options: str) -> list[tuple[int, str, str]]:
        onnx.save(made, "m.onnx")
        answers = []
        for command in (["check", "m.onnx"], ["compile", "m.onnx", "-o", "m.odtc"]):
            capsys.readouterr()
            code = main([*command, "--batch", "4", *options])
            printed = capsys.readouterr()
            answers.append((code, printed.out, printed.err))
        return answers

    return run


@pytest.mark.parametrize("name", REFUSED)
def test_check_refuses_with_the_words_of_compile(name: str, both) -> None:
    """Nodes that block are a report on stdout; all else is the error that compile prints."""
    made, options, code, words = REFUSED[name]
    (checked, report, said), (compiled, _, refusal) = both(made(), *options)
    assert checked == compiled == code
    assert words in refusal
    assert words in (said or report)
    assert not said or refusal.endswith(said)


# Name: the model, and the text about it. Each is whole once it comes out again.
TRAINED: dict[str, tuple[Model, str]] = {
    "outputs of another domain": (
        scores_and_others,
        "the loss is on 'scores', the first output that can be trained\n"
        "note: outputs without a loss are left out: label, map",
    ),
    "an output that is an input": (
        lambda: linear([value("x", ["N", 8]), value("y", ["N", 3])]),
        "outputs without a loss are left out: x",
    ),
    "an output that is a weight": (
        lambda: linear([value("y", ["N", 3]), value("w", [8, 3])]),
        "outputs without a loss are left out: w",
    ),
    "IR 3, opset 3": (lambda: old(3, 3), "can be trained"),
    "IR 3, opset 17": (lambda: old(3, 17), "can be trained"),
}


@pytest.mark.parametrize("name", TRAINED)
def test_what_no_loss_needs_is_left_aside(name: str, both, tmp_path: Path) -> None:
    made, note = TRAINED[name]
    (checked, report, _), (compiled, _, _) = both(made())
    assert checked == compiled == ExitCode.OK
    assert note in report
    trainer = odtc.load(tmp_path / "m.odtc").trainer(threads=1)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(trainer.evaluate(x), x @ W, atol=1e-5)
    trainer.step(x, np.array([0, 1, 2, 0]), lr=0.1)
    trainer.export_onnx(tmp_path / "out.onnx")
    names = [each.name for each in onnx.load(tmp_path / "out.onnx").graph.output]
    assert names == [each.name for each in made().graph.output]
