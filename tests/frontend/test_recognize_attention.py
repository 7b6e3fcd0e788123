"""Attention becomes one operator, and no tensor of queries times keys is left; others stay."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import relax

import odtc
from odtc.core.artifact.memory_plan import Kind, PlannedTensor
from odtc.dialect.sequences.attention import attention
from odtc.frontend.file.specialize import specialize
from odtc.frontend.importer import FORWARD, import_forward
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.trained.selection import select
from odtc.frontend.training import TRAIN_STEP, build_training_graph
from tests.numeric.cases.attention import CASES
from tests.numeric.conftest import text_model, weight

FOUND = (
    *("Softmax-heads", "Softmax-flat-keys", "Softmax-matrices"),
    *("Attention", "Attention-flat", "Attention-mask", "Attention-past"),
)
# Two heads of 64 steps: their probabilities are larger than anything else.
SHAPE, ALL = (2, 64, 8), 2 * 2 * 64 * 64
HEADS = {"split": np.array([2, 64, 2, 4]), "on": np.array(True), "half": np.float32(0.5)}
SPLIT = "a = Reshape (h, split) q = Transpose <perm = [0, 2, 1, 3]> (a) "
SCORES = "k = Transpose <perm = [0, 2, 3, 1]> (a) s = MatMul (q, k) "
WEIGHTS = f"{SPLIT}{SCORES}w = Softmax <axis = -1> (s) "


def heads(nodes: str, **parameters: np.ndarray) -> onnx.ModelProto:
    return text_model(nodes, SHAPE, parameters=parameters, constants=HEADS)


LEARNED = heads(
    f"{SPLIT}{SCORES}l = Add (s, m) w = Softmax <axis = -1> (l) y = MatMul (w, q)",
    m=weight(64, 64),
)
LEFT = {
    "learned mask": LEARNED,
    "dropout": heads(f"{WEIGHTS}d = Dropout (w, half, on) y = MatMul (d, q)"),
    "probabilities read": heads(f"{WEIGHTS}o = MatMul (w, q) r = ReduceMean (w) y = Add (o, r)"),
    "scores read": heads(f"{WEIGHTS}o = MatMul (w, q) r = ReduceMean (s) y = Add (o, r)"),
    "other axis": heads(f"{SPLIT}{SCORES}w = Softmax <axis = 2> (s) y = MatMul (w, q)"),
    "wider mask": text_model(
        "k = Transpose <perm = [0, 2, 1]> (h) s = MatMul (h, k) e = ReduceMean <axes = [1, 2]> (x) "
        "i = Reshape (e, apart) l = Add (s, i) w = Softmax <axis = -1> (l) y = MatMul (w, h)",
        (2, 6, 4),
        constants={"apart": np.array([2, 1, 1, 1])},
    ),
    "shared values": heads(f"{WEIGHTS}y = MatMul (w, v)", v=weight(1, 1, 64, 4)),
}


def forward_of(model: onnx.ModelProto, *varied: str) -> list[str]:
    """Names of the Relax operators of a model's inference function."""
    graph = normalize(specialize(model))
    function = import_forward(graph, [*varied] if varied else None)[FORWARD]
    (block,) = function.body.blocks
    calls = [b.value for b in block.bindings if isinstance(b.value, relax.Call)]
    return [getattr(call.op, "name", "") for call in calls]


@pytest.mark.parametrize("name", FOUND)
def test_it_becomes_one_operator(name: str) -> None:
    names = forward_of(CASES[name])
    assert names.count(attention.name) == 1
    assert not [each for each in names if "softmax" in each]


@pytest.mark.parametrize("name", LEFT)
def test_what_it_cannot_stand_for_is_left(name: str) -> None:
    names = forward_of(LEFT[name])
    assert attention.name not in names
    assert "relax.nn.softmax" in names


def test_a_mask_may_be_frozen() -> None:
    assert attention.name in forward_of(LEARNED, "p")


def test_heads_are_read_and_written_inside_of_the_steps() -> None:
    """No operator brings them there or back."""
    assert "relax.permute_dims" not in forward_of(CASES["Softmax-heads"])


def largest(model: onnx.ModelProto) -> int:
    """Elements of the largest tensor of a training step."""
    graph = specialize(model)
    objective = join_losses(graph, terms_of("cross-entropy"))
    selection = select(graph, ("*",), (), False)
    normalize(graph)
    step = build_training_graph(graph, objective, as_update(SGD()), selection).module[TRAIN_STEP]
    (block,) = step.body.blocks
    types = [b.var.ty for b in block.bindings]
    fields = [f for t in types for f in (t.fields if isinstance(t, relax.TupleType) else [t])]
    return max(math.prod(map(int, f.shape)) for f in fields if isinstance(f, relax.TensorType))


def compiled(model: onnx.ModelProto, folder: Path) -> odtc.Artifact:
    onnx.save(model, folder / "model.onnx")
    return odtc.compile(folder / "model.onnx", "host-cpu{threads=1}")


def tensors(artifact: odtc.Artifact) -> list[PlannedTensor]:
    return [t for t in artifact.memory.plan.tensors if t.kind is not Kind.WORKSPACE]


def test_no_matrix_of_probabilities_is_planned(tmp_path: Path) -> None:
    plain = heads(f"{WEIGHTS}y = MatMul (w, q)")
    assert largest(plain) < ALL <= largest(LEFT["dropout"])
    own, other = (compiled(model, tmp_path) for model in (plain, LEFT["dropout"]))
    assert sum(tensor.nbytes for tensor in tensors(own)) < 4 * ALL
    assert max(tensor.nbytes for tensor in tensors(other)) == 4 * ALL
    assert own.manifest.sizes.evaluate < 4 * ALL < other.manifest.sizes.evaluate
