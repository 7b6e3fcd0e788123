"""Recurrent layers: values by ONNX Runtime, gradients by PyTorch and by finite differences.

The reference is written from the ONNX standard, in double precision; that it is right is checked
against ONNX Runtime's values and PyTorch's own layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from benchmarks.reference.recurrent import RECURRENT
from odtc.frontend.coverage import check_graph
from odtc.frontend.file.specialize import specialize
from odtc.frontend.importer import FORWARD, import_forward
from odtc.frontend.normalize.pipeline import normalize
from tests.fast import examples
from tests.numeric.conftest import listing, relative_error, weight

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 3, 3, 5, 6


def layer_model(
    kind: str,
    inputs: Sequence[str] = ("B",),
    *,
    shape: Sequence[int] = (STEPS, BATCH, INPUT),
    lengths: Sequence[int] | None = None,
    opset: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """`x + p -> layer -> all of its outputs in one row of logits`."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    first = bool(attributes.get("layout"))
    batch = shape[0 if first else 1]
    state = (batch, directions, HIDDEN) if first else (directions, batch, HIDDEN)
    weights = {
        "p": weight(1, *shape[1:]),
        "W": weight(directions, rows, shape[2]),
        "R": weight(directions, rows, HIDDEN, seed=1),
        "B": weight(directions, 2 * rows),
        "h0": weight(*state, seed=2),
        "c0": weight(*state, seed=3),
        "P": weight(directions, 3 * HIDDEN),
    }
    values: dict[str, np.ndarray] = {n: weights[n] for n in ("p", "W", "R", *inputs)}
    if lengths is not None:
        values["lengths"] = np.array(lengths, np.int32)
    slots = ["h", "W", "R", *(n if n in values else "" for n in ("B", "lengths", "h0", "c0", "P"))]
    slots = slots[: 6 if kind != "LSTM" else 8]
    names = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    nodes = [
        helper.make_node("Add", ["x", "p"], ["h"], "add"),
        helper.make_node(kind, slots, names, "layer", hidden_size=HIDDEN, **attributes),
        *(helper.make_node("Reshape", [n, "row"], [f"{n}-row"], n) for n in names),
        helper.make_node("Concat", [f"{n}-row" for n in names], ["logits"], "join", axis=1),
    ]
    values["row"] = np.array([1, -1])
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return listing(model, weights)


BOTH = {"direction": "bidirectional"}
CASES = {
    "LSTM": layer_model("LSTM"),
    "LSTM-all": layer_model("LSTM", ("B", "h0", "c0", "P"), **BOTH),
    "LSTM-reverse": layer_model("LSTM", ("B", "h0", "c0"), direction="reverse"),
    "LSTM-lengths": layer_model("LSTM", ("B", "h0", "c0"), lengths=(2, 3, 1), **BOTH),
    "LSTM-no-bias": layer_model("LSTM", ()),
    "LSTM-clip": layer_model("LSTM", ("B", "P"), clip=0.4),
    "LSTM-coupled": layer_model("LSTM", ("B", "c0", "P"), input_forget=1),
    "LSTM-activations": layer_model(
        "LSTM",
        ("B", "h0"),
        activations=["HardSigmoid", "ScaledTanh", "Affine", "Sigmoid", "LeakyRelu", "Tanh"],
        activation_alpha=[0.3, 0.9, 1.1, 0.2],
        activation_beta=[0.4, 0.8, 0.1],
        **BOTH,
    ),
    "LSTM-one-step": layer_model("LSTM", ("B", "c0"), shape=(1, BATCH, INPUT)),
    "GRU": layer_model("GRU"),
    "GRU-lengths": layer_model("GRU", ("B", "h0"), lengths=(3, 3, 2), **BOTH),
    "GRU-after": layer_model("GRU", ("B",), linear_before_reset=1),
    "GRU-after-all": layer_model("GRU", ("B", "h0"), linear_before_reset=1, **BOTH),
    "GRU-after-no-bias": layer_model("GRU", (), linear_before_reset=1, direction="reverse"),
    "GRU-activations": layer_model(
        "GRU", ("B", "h0"), activations=["Sigmoid", "Elu"], activation_alpha=[0.7]
    ),
    "RNN": layer_model("RNN"),
    "RNN-all": layer_model("RNN", ("B", "h0"), lengths=(1, 2, 3), **BOTH),
    "RNN-relu": layer_model("RNN", ("B",), activations=["Relu"], direction="reverse"),
    "RNN-old": layer_model("RNN", ("B",), opset=9, clip=0.5),
    "RNN-smooth": layer_model("RNN", activations=["Softplus", "Softsign"], **BOTH),
}
# ONNX Runtime has none of these: layout, and clipping means something else to it.
LAYOUT = {
    "LSTM": layer_model("LSTM", ("B", "h0", "c0"), layout=1),
    "GRU": layer_model("GRU", ("B", "h0"), layout=1, **BOTH),
    "RNN": layer_model("RNN", ("B",), layout=1),
}


def feeds(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return weight(*shape, seed=9), np.array([7])


def check_gradients(model: onnx.ModelProto, path, values: np.ndarray | None = None) -> None:
    """One step against PyTorch, and that against finite differences; and values if given."""
    x, y = feeds(model)
    trainer = odtc.compile(path).trainer()
    if values is not None:
        assert relative_error(trainer.evaluate(x), values) < 1e-5
    before = trainer.parameters()
    loss = trainer.step(x, y, lr=1.0)
    reference = TorchTrainer(model, lr=1.0, dtype=torch.float64)
    assert loss == pytest.approx(reference.step(x, y), rel=1e-5)
    expected = {k: before[k] - v for k, v in reference.parameters().items() if k in before}
    after = trainer.parameters()
    for name, value in expected.items():
        assert relative_error(before[name] - after[name], value) < 5e-5, name
    rng = np.random.default_rng(1)
    wide = {k: v.astype(np.float64) for k, v in before.items()}
    for name, gradient in expected.items():
        direction = rng.standard_normal(gradient.shape)
        slope = _slope(model, wide, name, direction, x, y)
        scale = float(np.abs(gradient).sum()) or 1.0
        assert slope == pytest.approx(
            float((gradient * direction).sum()), rel=1e-4, abs=1e-5 * scale
        )


def _slope(model, weights, name, direction, x, y) -> float:
    """Of the loss along a direction, by central differences."""
    step, losses = 1e-6, []
    for sign in (1, -1):
        moved = onnx.ModelProto()
        moved.CopyFrom(model)
        for tensor in moved.graph.initializer:
            if tensor.name in weights:
                value = weights[tensor.name]
                value = value + sign * step * direction if tensor.name == name else value
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        losses.append(TorchTrainer(moved, lr=0.0, dtype=torch.float64).step(x, y))
    return (losses[0] - losses[1]) / (2 * step)


# Every idea once; the others are variations of these.
QUICK = ("GRU-after-all", "GRU-lengths", "LSTM-all", "LSTM-lengths", "RNN")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_layer(name: str, saved) -> None:
    model = CASES[name]
    path = saved(model)
    x, _ = feeds(model)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    check_gradients(model, path, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYOUT)
def test_batch_first(kind: str, saved) -> None:
    check_gradients(LAYOUT[kind], saved(LAYOUT[kind]))


@pytest.mark.slow
@settings(max_examples=examples(6), deadline=None)
@given(
    st.sampled_from(sorted(GATES)),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.data(),
)
def test_any_sizes(saved_many, kind: str, steps: int, batch: int, direction: str, data) -> None:
    lengths = data.draw(st.none() | st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    model = layer_model(
        kind, ("B", "h0"), shape=(steps, batch, INPUT), lengths=lengths, direction=direction
    )
    check_gradients(model, saved_many(model))


def test_which_layers_have_kernels() -> None:
    """All others are unrolled: no node of theirs is left."""
    kept = {
        name: [node.op_type for node in normalize(specialize(model)).nodes if node.name == "layer"]
        for name, model in {**CASES, **{f"{kind}-layout": m for kind, m in LAYOUT.items()}}.items()
    }
    found = {name for name, types in kept.items() if set(types) & set(GATES)}
    assert found == {
        *("LSTM", "LSTM-layout", "LSTM-lengths", "LSTM-no-bias", "LSTM-reverse"),
        *("GRU", "GRU-after", "GRU-after-all", "GRU-after-no-bias", "GRU-layout", "GRU-lengths"),
        *("RNN", "RNN-all", "RNN-layout", "RNN-relu"),
    }


def replaced(model: onnx.ModelProto, name: str, value: np.ndarray) -> onnx.ModelProto:
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(value, name))
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            replaced(layer_model("LSTM"), "R", weight(1, 20, HIDDEN)),
            "'R' is [1, 20, 6], not [1, 24",
        ),
        (replaced(layer_model("GRU"), "B", weight(1, 30)), "'B' is [1, 30], not [1, 36]"),
        (layer_model("RNN", lengths=(1, 2)), "'lengths' is [2], not [3]"),
        (layer_model("RNN", activations=["Tanh"], **BOTH), "it lists 1 activations, not 2"),
    ],
    ids=["weights", "bias", "lengths", "activations"],
)
def test_what_does_not_fit_is_refused(model: onnx.ModelProto, reason: str) -> None:
    (report,) = (item for item in check_graph(specialize(model)) if item.op_type in GATES)
    assert reason in report.reason


def test_one_first_state_serves_all_samples(saved) -> None:
    """An export of a single sample has it."""
    model = replaced(layer_model("LSTM", ("B", "h0", "c0")), "h0", weight(1, 1, HIDDEN))
    check_gradients(model, saved(model))


@pytest.mark.parametrize("kind", GATES)
def test_a_step_has_as_many_kernels_however_long_the_sequence_is(kind: str) -> None:
    sizes = []
    for steps in (2, 200):
        graph = normalize(specialize(layer_model(kind, shape=(steps, BATCH, INPUT), **BOTH)))
        (block,) = import_forward(graph)[FORWARD].body.blocks
        sizes.append(len(block.bindings))
    assert sizes[0] == sizes[1]


def test_lengths_that_are_an_input(saved_many) -> None:
    """They do what constant ones do."""
    lengths = (2, 0, 3)
    fixed = layer_model("LSTM", ("B", "h0", "c0"), lengths=lengths)
    given = onnx.ModelProto()
    given.CopyFrom(fixed)
    (at,) = (i for i, tensor in enumerate(given.graph.initializer) if tensor.name == "lengths")
    del given.graph.initializer[at]
    given.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [BATCH]))
    x, y = feeds(fixed)
    trainers = [odtc.compile(saved_many(model)).trainer() for model in (fixed, given)]
    losses = [
        trainers[0].step(x, y, lr=1.0),
        trainers[1].step({"x": x, "lengths": np.array(lengths, np.int32)}, y, lr=1.0),
    ]
    assert losses[0] == losses[1]
    for name, value in trainers[0].parameters().items():
        np.testing.assert_array_equal(trainers[1].parameters()[name], value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_mixed_precision_saves_the_steps_in_half(kind: str, saved) -> None:
    model = layer_model(kind, ("B",), shape=(32, 8, INPUT))
    path, (x, y) = saved(model), feeds(model)
    losses, changes = [], []
    for precision in ("float32", "mixed"):
        trainer = odtc.compile(path, precision=precision).trainer()
        before = trainer.parameters()
        losses.append(trainer.step(x, y, lr=1.0))
        changes.append({k: v - before[k] for k, v in trainer.parameters().items()})
    assert losses[0] == losses[1]
    for name, value in changes[0].items():
        assert 0 < relative_error(changes[1][name], value) < 5e-3, name


@pytest.mark.parametrize("kind", GATES)
def test_the_reference_is_pytorch_s_layer(kind: str) -> None:
    """The gates of the two stand in another order."""
    order = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}[kind]
    layer = getattr(torch.nn, kind)(INPUT, HIDDEN, bidirectional=True).double()

    def onnx_order(name: str) -> torch.Tensor:
        parts = [getattr(layer, f"{name}_l0{suffix}") for suffix in ("", "_reverse")]
        return torch.stack([torch.cat([p.chunk(len(order))[g] for g in order]) for p in parts])

    w, r, b_w, b_r = (onnx_order(f"{k}_{p}") for k in ("weight", "bias") for p in ("ih", "hh"))
    x = torch.randn(STEPS, BATCH, INPUT, dtype=torch.float64)
    attrs = {**BOTH, "linear_before_reset": 1}
    y, last, *_ = RECURRENT[kind](attrs, x, w, r, torch.cat([b_w, b_r], 1))
    expected, state = layer(x)
    torch.testing.assert_close(y.transpose(1, 2).reshape(STEPS, BATCH, -1), expected)
    torch.testing.assert_close(last, state[0] if kind == "LSTM" else state)
