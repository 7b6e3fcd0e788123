"""Whole steps with other losses: several outputs, losses in the model, and losses in a file."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError, ModelError, UsageError
from tests.numeric.conftest import relative_error

RNG = np.random.default_rng(9)
X = RNG.standard_normal((4, 6)).astype(np.float32)
WEIGHTS = {
    name: RNG.standard_normal(shape).astype(np.float32)
    for name, shape in {"t": (6, 8), "a": (8, 5), "b": (8, 3)}.items()
}
Values = dict[str, Tensor]
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    inputs: dict[str, tuple[int, list[int | str]]] | None = None,
    constants: dict[str, np.ndarray] | None = None,
    loss_rank: int = 0,
) -> onnx.ModelProto:
    """`x -> t -> a, b`, two heads on one trunk, and then the nodes."""
    shapes = {"logits": ["N", 5], "aux": ["N", 3], "loss": [None] * loss_rank}
    trunk = [
        helper.make_node("MatMul", ["x", "t"], ["h"]),
        helper.make_node("MatMul", ["h", "a"], ["logits"]),
        helper.make_node("MatMul", ["h", "b"], ["aux"]),
    ]
    fed = {"x": (FLOAT, ["N", 6]), **(inputs or {})}
    graph = helper.make_graph(
        trunk + nodes,
        "g",
        [helper.make_tensor_value_info(name, *spec) for name, spec in fed.items()],
        [helper.make_tensor_value_info(n, FLOAT, shapes[n]) for n in outputs],
        [numpy_helper.from_array(v, k) for k, v in {**WEIGHTS, **(constants or {})}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(loss: Callable[[Values], Tensor]) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and the gradients of the weights in double precision."""
    values = {
        k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in WEIGHTS.items()
    }
    h = torch.tensor(X, dtype=torch.float64) @ values["t"]
    total = loss({"logits": h @ values["a"], "aux": h @ values["b"]})
    total.backward()
    gradients = {k: v.grad for k, v in values.items()}
    return total.item(), {
        k: np.zeros_like(WEIGHTS[k]) if g is None else g.numpy() for k, g in gradients.items()
    }


def check_step(trainer: odtc.Trainer, loss: Callable[[Values], Tensor], *fed: Any) -> None:
    """A step at learning rate 1 changes each weight by its gradient."""
    before = trainer.parameters()
    value, gradients = expected(loss)
    assert trainer.step(*fed, lr=1.0) == pytest.approx(value, rel=1e-5)
    for name, after in trainer.parameters().items():
        assert relative_error(before[name] - after, gradients[name]) < 2e-5, name


LABELS = np.array([0, 4, 2, 1])
TARGETS = RNG.standard_normal((4, 3)).astype(np.float32)


def test_several_outputs_with_weights(saved) -> None:
    losses = {"aux": (0.3, odtc.MSE()), "logits": odtc.CrossEntropy(label_smoothing=0.1)}
    artifact = odtc.compile(saved(model_of([], ["logits", "aux"])), batch=4, loss=losses)
    assert artifact.manifest.loss == "aux=0.3*mse logits=cross-entropy{label-smoothing=0.1}"
    trainer = artifact.trainer()

    def loss(out: Values) -> Tensor:
        cross = F.cross_entropy(out["logits"], torch.tensor(LABELS), label_smoothing=0.1)
        return cross + 0.3 * F.mse_loss(out["aux"], torch.tensor(TARGETS, dtype=torch.float64))

    with pytest.raises(DataError, match="2 labels, and one array was fed"):
        trainer.step(X, LABELS, lr=1.0)
    before = trainer.parameters()
    np.testing.assert_allclose(trainer.evaluate(X), X @ before["t"] @ before["b"], rtol=1e-4)
    np.testing.assert_allclose(
        trainer.evaluate(X[:3], output="logits"), X[:3] @ before["t"] @ before["a"], rtol=1e-4
    )
    with pytest.raises(UsageError, match="'h' cannot be evaluated"):
        trainer.evaluate(X, output="h")
    check_step(trainer, loss, X, {"logits": LABELS, "aux": TARGETS})


def test_an_output_behind_frozen_weights_only_adds_its_loss(saved) -> None:
    losses = {"logits": "cross-entropy", "aux": "mse"}
    model = saved(model_of([], ["logits", "aux"]))
    trainer = odtc.compile(model, batch=4, loss=losses, train="a").trainer()
    before = trainer.parameters()
    value, gradients = expected(
        lambda out: (
            F.cross_entropy(out["logits"], torch.tensor(LABELS))
            + F.mse_loss(out["aux"], torch.tensor(TARGETS, dtype=torch.float64))
        )
    )
    assert trainer.step(X, {"logits": LABELS, "aux": TARGETS}, lr=1.0) == pytest.approx(value)
    after = trainer.parameters()
    assert relative_error(before["a"] - after["a"], gradients["a"]) < 2e-5
    assert np.array_equal(before["t"], after["t"])


CLASS_WEIGHTS = np.array([0.5, 2, 1, 0, 3], np.float32)
SOME = np.array([0, -1, 2, 1])


@pytest.mark.parametrize(
    ("dtype", "reduction", "weighted", "ignored"),
    [
        (np.int64, "mean", False, None),
        (np.int32, "mean", True, None),
        (np.int64, "mean", False, -1),
        (np.int64, "mean", True, 2),
        (np.int32, "sum", True, -1),
        (np.int64, "none", False, 2),
    ],
)
def test_loss_nodes_in_the_model(
    dtype: type, reduction: str, weighted: bool, ignored: int | None, saved
) -> None:
    inputs = ["logits", "y", "w"] if weighted else ["logits", "y"]
    attrs: dict[str, Any] = {} if ignored is None else {"ignore_index": ignored}
    nodes = [
        helper.make_node(
            "SoftmaxCrossEntropyLoss", inputs, ["loss", "logp"], reduction=reduction, **attrs
        )
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {"w": CLASS_WEIGHTS} if weighted else {}
    model = model_of(
        nodes, ["loss", "logits"], {"y": (kind, ["N"])}, constants, int(reduction == "none")
    )
    artifact = odtc.compile(saved(model), batch=4, loss="in-model")
    assert not artifact.manifest.labels
    trainer = artifact.trainer()
    labels = (SOME if ignored == -1 else LABELS).astype(dtype)

    def loss(out: Values) -> Tensor:
        weight = torch.tensor(CLASS_WEIGHTS, dtype=torch.float64) if weighted else None
        index = -100 if ignored is None else ignored
        target = torch.tensor(labels).long()
        return F.cross_entropy(
            out["logits"], target, weight, ignore_index=index, reduction=reduction
        ).mean()

    before = trainer.parameters()
    np.testing.assert_allclose(trainer.evaluate({"x": X}), X @ before["t"] @ before["a"], rtol=1e-4)
    check_step(trainer, loss, {"x": X, "y": labels})
    with pytest.raises(DataError, match=r"label 5 is outside \[0, 5\)"):
        trainer.step({"x": X, "y": labels + 5}, lr=1.0)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_loss_node_of_rank_4(reduction: str, saved) -> None:
    """`aux` as [N, 3, 1, 1] beside a copy of itself: scores [N, 3, 1, 2], labels [N, 1, 2]."""
    nodes = [
        helper.make_node("Reshape", ["aux", "s"], ["r"]),
        helper.make_node("Neg", ["r"], ["n"]),
        helper.make_node("Concat", ["r", "n"], ["scores"], axis=3),
        helper.make_node("LogSoftmax", ["scores"], ["logp"], axis=1),
        helper.make_node(
            "NegativeLogLikelihoodLoss",
            ["logp", "y", "w"],
            ["loss"],
            reduction=reduction,
            ignore_index=1,
        ),
    ]
    weights = np.array([0.5, 2, 1], np.float32)
    constants = {"s": np.array([4, 3, 1, 1]), "w": weights}
    model = model_of(
        nodes,
        ["loss"],
        {"y": (TensorProto.INT64, ["N", 1, 2])},
        constants,
        0 if reduction == "mean" else 3,
    )
    trainer = odtc.compile(saved(model), batch=4, loss="in-model").trainer()
    labels = np.array([[[0, 1]], [[2, 2]], [[1, 0]], [[2, 0]]])

    def loss(out: Values) -> Tensor:
        scores = out["aux"].reshape(4, 3, 1, 1)
        logs = F.log_softmax(torch.cat([scores, -scores], 3), 1)
        weight = torch.tensor(weights, dtype=torch.float64)
        return F.nll_loss(
            logs, torch.tensor(labels), weight, ignore_index=1, reduction=reduction
        ).mean()

    value, _ = expected(loss)
    fed = {"x": X, "y": labels}
    assert trainer.evaluate(fed).mean() == pytest.approx(value, rel=1e-5)
    check_step(trainer, loss, fed)


def loss_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int | str]]],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A loss graph with the output `loss`."""
    graph = helper.make_graph(
        nodes,
        "loss",
        [helper.make_tensor_value_info(name, *spec) for name, spec in inputs.items()],
        [helper.make_tensor_value_info("loss", FLOAT, [])],
        [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_a_loss_in_a_file_by_position(saved, tmp_path: Path) -> None:
    """A weighted squared error; its names `h` and `t` are also tensors of the model."""
    nodes = [
        helper.make_node("Sub", ["input", "target"], ["h"]),
        helper.make_node("Mul", ["h", "h"], ["square"]),
        helper.make_node("Mul", ["square", "t"], ["weighted"]),
        helper.make_node("ReduceMean", ["weighted"], ["loss"], keepdims=0),
    ]
    inputs = {"input": (FLOAT, ["B", "C"]), "target": (FLOAT, ["B", "C"])}
    factors = np.array([1, 2, 0, 1, 3], np.float32)
    # Of another opset than the model.
    onnx.save(loss_model(nodes, inputs, {"t": factors}, opset=13), tmp_path / "l.onnx")
    artifact = odtc.compile(saved(model_of([], ["logits"])), batch=4, loss=str(tmp_path / "l.onnx"))
    (label,) = artifact.manifest.labels
    assert (label.spec.name, label.spec.shape) == ("target", (4, 5))
    trainer = artifact.trainer()
    assert trainer.parameters().keys() == {"t", "a"}
    targets = RNG.standard_normal((4, 5)).astype(np.float32)
    before = trainer.parameters()
    np.testing.assert_allclose(trainer.evaluate(X), X @ before["t"] @ before["a"], rtol=1e-4)
    value, gradients = expected(
        lambda out: (torch.tensor(factors) * (out["logits"] - torch.tensor(targets)) ** 2).mean()
    )
    assert trainer.step(X, targets, lr=1.0) == pytest.approx(value, rel=1e-5)
    for name, after in trainer.parameters().items():
        assert relative_error(before[name] - after, gradients[name]) < 2e-5, name


def test_a_loss_in_a_file_by_names(saved, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "y"], ["c"], ignore_index=-1),
        helper.make_node("Sub", ["aux", "z"], ["d"]),
        helper.make_node("Abs", ["d"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["f"], keepdims=0),
        helper.make_node("Add", ["c", "f"], ["loss"]),
    ]
    inputs = {
        "y": (INT, ["N"]),
        "aux": (FLOAT, ["N", "D"]),
        "z": (FLOAT, ["N", "D"]),
        "logits": (FLOAT, ["N", "C"]),
    }
    onnx.save(loss_model(nodes, inputs), tmp_path / "l.onnx")
    model = saved(model_of([], ["aux", "logits"]))
    artifact = odtc.compile(model, batch=4, loss=odtc.LossGraph(str(tmp_path / "l.onnx")))
    assert [item.output.name for item in artifact.manifest.evaluations] == ["aux", "logits"]
    trainer = artifact.trainer()

    def loss(out: Values) -> Tensor:
        cross = F.cross_entropy(out["logits"], torch.tensor(SOME), ignore_index=-1)
        return cross + F.l1_loss(out["aux"], torch.tensor(TARGETS, dtype=torch.float64))

    with pytest.raises(DataError, match=r"label 6 is outside \[0, 5\) and is not -1"):
        trainer.step(X, {"y": SOME + 6, "z": TARGETS}, lr=1.0)
    check_step(trainer, loss, X, {"y": SOME, "z": TARGETS})


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"logits": (FLOAT, ["N", 7]), "y": (FLOAT, ["N", 7])}, r"\['N', 7\]; the model's output"),
        ({"logits": (FLOAT, ["N"]), "y": (FLOAT, ["N"])}, "the loss takes logits of shape"),
        ({"logits": (FLOAT, ["N", "N"]), "y": (FLOAT, ["N"])}, "the loss takes logits of shape"),
        ({"logits": (FLOAT, ["N", 5]), "y": (FLOAT, ["N", "K"])}, "dimension 'K' .* has no size"),
        ({"logits": (FLOAT, ["N", 5]), "x": (FLOAT, ["N", 5])}, "input 'x' is called like"),
    ],
)
def test_losses_in_files_that_do_not_fit(inputs: dict, problem: str, saved, tmp_path: Path) -> None:
    names = list(inputs)
    nodes = [
        helper.make_node("Sub", names, ["d"]),
        helper.make_node("ReduceSum", ["d"], ["loss"], keepdims=0),
    ]
    onnx.save(loss_model(nodes, inputs), tmp_path / "l.onnx")
    with pytest.raises(ModelError, match=problem) as failure:
        odtc.compile(saved(model_of([], ["logits"])), batch=4, loss=str(tmp_path / "l.onnx"))
    assert failure.value.where == str(tmp_path / "l.onnx")


def test_tokens_and_ignored_labels(saved) -> None:
    """Per token, classes last; a batch of ignored labels changes nothing."""
    model = onnx.ModelProto()
    model.CopyFrom(model_of([], ["logits"]))
    for value, size in ((model.graph.input[0], 6), (model.graph.output[0], 5)):
        value.type.tensor_type.shape.dim.add().dim_value = size
        value.type.tensor_type.shape.dim[1].dim_value = 3
    loss = odtc.CrossEntropy(axis=-1, ignore_index=-100)
    artifact = odtc.compile(saved(model), batch=2, loss=loss)
    (label,) = artifact.manifest.labels
    assert label.spec.shape == (2, 3)
    trainer = artifact.trainer()
    x = RNG.standard_normal((2, 3, 6)).astype(np.float32)
    before = trainer.parameters()
    assert trainer.step(x, np.full((2, 3), -100), lr=1.0) == 0.0
    after = trainer.parameters()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    y = np.array([[0, -100, 4], [1, 2, -100]])
    scores = torch.tensor(x @ before["t"] @ before["a"])
    assert trainer.step(x, y, lr=0.01) == pytest.approx(
        F.cross_entropy(scores.movedim(-1, 1), torch.tensor(y)).item(), rel=1e-4
    )


def test_the_derivative_stays_float32_in_mixed_precision(saved) -> None:
    """Labels near the outputs: the derivative of an element is below what float16 can hold."""
    gradients = []
    x = RNG.standard_normal((512, 6)).astype(np.float32)
    for precision in ("float32", "mixed"):
        model = saved(model_of([], ["logits"]))
        trainer = odtc.compile(model, batch=512, loss="mse", precision=precision).trainer()
        before = trainer.parameters()
        trainer.step(x, trainer.evaluate(x) + np.float32(1e-5), lr=1e5)
        gradients.append(trainer.parameters()["a"] - before["a"])
    assert relative_error(gradients[1], gradients[0]) < 5e-2
    assert np.abs(gradients[0]).max() > 0


def test_a_step_needs_a_learning_rate(saved) -> None:
    trainer = odtc.compile(saved(model_of([], ["logits"])), batch=4).trainer()
    with pytest.raises(DataError, match="no learning rate is given"):
        trainer.step(X, LABELS)
    with pytest.raises(DataError, match="no learning rate is given"):
        trainer.fit((X, LABELS), schedule=odtc.schedules.Cosine)
    for rate in (math.nan, float(np.float32("nan"))):
        with pytest.raises(DataError, match="the learning rate nan is not a finite float32"):
            trainer.step(X, LABELS, lr=rate)


def test_the_command_line_trains_several_outputs(saved, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(saved(model_of([], ["logits", "aux"])))
    losses = ["logits=cross-entropy{label-smoothing=0.1}", "aux=0.3*smooth-l1{beta=0.5}"]
    assert main(["check", model, "--loss", *losses]) == 0
    assert main(["compile", model, "--batch", "2", "--loss", *losses, "-o", "m.odtc"]) == 0
    assert odtc.load("m.odtc").manifest.loss == " ".join(losses)
    np.savez("d.npz", x=X, logits=LABELS, aux=TARGETS)
    options = ["--data", "d.npz", "--lr", "0.01", "--epochs", "2", "--eval-data", "d.npz"]
    assert main(["train", "m.odtc", *options]) == 0
