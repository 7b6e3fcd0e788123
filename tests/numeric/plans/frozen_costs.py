"""Costs of training steps as they are planned; models whose weights are not read as they lie."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.backends.targets import parse_target
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, parse_memory_plans
from odtc.driver.opt import PassChoice, opt_module
from odtc.driver.options.step_options import StepOptions
from odtc.passes.memory.arena import RECORD

WIDTH, LAYERS = 64, 4
MATRIX = WIDTH * WIDTH * 4
Tensors = Mapping[str, np.ndarray]
# From the name of a weight to nodes that make `NAME_w` of it, and the tensors that these read.
Form = Callable[[str, np.random.Generator], tuple[str, Tensors]]


@dataclass(frozen=True)
class Cost:
    """What a step takes, as it is planned.

    Attributes:
        arena: bytes of its arena.
        kernels: calls of kernels.
        workspace: bytes of the largest workspace.
    """

    arena: int
    kernels: int
    workspace: int

    def is_within(self, other: "Cost") -> bool:
        """Whether nothing of it is more than another's."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(own <= most for own, most in pairs)


def plan_of(path: Path, target: str = "host-cpu", **options: Any) -> MemoryPlan:
    """The memory plan of a step; nothing is compiled.

    Args:
        path: of its model.
        target: as text.
        options: those of `odtc.compile`.
    """
    resolved = parse_target(target).resolved()
    module = opt_module(path, resolved, StepOptions(**options), PassChoice(), lambda _: None)
    return parse_memory_plans(f"[{module['train_step'].attrs[RECORD]}]", "plan")[0]


def cost_of(plan: MemoryPlan) -> Cost:
    """The cost of a step that has this plan."""
    workspaces = [t.nbytes for t in plan.tensors if t.kind is Kind.WORKSPACE]
    return Cost(plan.arena_bytes, len(plan.calls), max(workspaces, default=0))


def layers_of(form: Form, path: Path) -> Path:
    """Writes a model of layers that read their weights in a form, behind a trained shift `p`."""
    rng, tensors, text = np.random.default_rng(0), {"p": np.zeros(WIDTH, np.float32)}, ""
    for number in range(LAYERS):
        nodes, read = form(f"k{number}", rng)
        tensors |= read
        text += f"{nodes} u{number} = MatMul (x{number}, k{number}_w) "
        text += f"x{number + 1} = Tanh (u{number}) "
    ends = f"(float[8, {WIDTH}] x) => (float[8, {WIDTH}] y)"
    body = f"x0 = Add (x, p) {text} y = Identity (x{LAYERS})"
    onnx.save(model_of(ends, body, tensors), path)
    return path


def model_of(ends: str, nodes: str, tensors: Tensors, opset: int = 21) -> onnx.ModelProto:
    """A model in ONNX's text form: inputs and outputs, nodes, and the tensors that it holds."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> g'
    model = onnx.parser.parse_model(f"{head} {ends} {{ {nodes} }}")
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in tensors.items())
    return model


def unfolded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with matrices as PyTorch has them, each behind a Transpose; changed in place."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        tensor = stored.get(node.input[1]) if node.op_type == "MatMul" else None
        if tensor is not None:
            turned = np.ascontiguousarray(numpy_helper.to_array(tensor).T)
            tensor.CopyFrom(numpy_helper.from_array(turned, tensor.name))
            node.input[1] = f"{tensor.name}_turned"
            model.graph.node.append(
                helper.make_node("Transpose", [tensor.name], [node.input[1]], perm=[1, 0])
            )
        model.graph.node.append(node)
    return model


def matrices_in(plan: MemoryPlan) -> int:
    """How many tensors are as large as a weight, of which no two are alive at once."""
    large = [each for each in plan.tensors if each.nbytes >= MATRIX]
    large.sort(key=lambda each: each.first)
    assert all(one.last < other.first for one, other in pairwise(large))
    return len(large)


def as_read(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the matrices in place of what computes them."""
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    read = [f"k{number}_w" for number in range(LAYERS)]
    del whole.graph.output[:]
    whole.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [WIDTH, WIDTH]) for name in read
    )
    x = np.zeros((8, WIDTH), np.float32)
    found = ReferenceEvaluator(whole).run(None, {"x": x})
    values = {name: np.asarray(each) for name, each in zip(read, found, strict=True)}
    kept = [n for n in model.graph.node if n.op_type in ("Add", "MatMul", "Tanh", "Identity")]
    kept = [node for node in kept if not set(node.output) & values.keys()]
    p = next(each for each in model.graph.initializer if each.name == "p")
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(kept)
    model.graph.initializer.append(p)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in values.items()
    )
    return model


def follows_plain(path: Path) -> None:
    """Compares steps with those of the same weights, kept as they are read: losses and gradient."""
    plain = path.with_name("plain.onnx")
    onnx.save(as_read(onnx.load(path)), plain)
    x, y = np.random.default_rng(2).standard_normal((2, 8, WIDTH)).astype(np.float32)
    steps = []
    for each in (path, plain):
        trainer = odtc.compile(each, loss="mse", train=["p"]).trainer(threads=1)
        steps.append(([trainer.step(x, y, lr=1.0) for _ in range(2)], trainer.parameters()["p"]))
    (losses, found), (expected_losses, expected) = steps
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / WIDTH**0.5).astype(np.float32)


def _of_floats(text: str, *shape: int, **others: Any) -> Form:
    """A form of a float32 weight of a shape, square if none is given."""

    def form(name: str, rng: np.random.Generator) -> tuple[str, Tensors]:
        tensors = {name: floats(rng, *(shape or (WIDTH, WIDTH)))}
        tensors |= {f"{name}{key}": np.asarray(value) for key, value in others.items()}
        return text.replace("$", name), tensors

    return form


def _parts(axis: int, rest: str = "") -> Form:
    """A form of a weight that is joined of two, along an axis."""

    def form(name: str, rng: np.random.Generator) -> tuple[str, Tensors]:
        shape = [WIDTH, WIDTH]
        shape[axis] //= 2
        made = f"{name}_j = Concat <axis = {axis}> ({name}a, {name}b) "
        made += (rest or "$_w = Identity ($_j)").replace("$", name)
        return made, {f"{name}{each}": floats(rng, *shape) for each in "ab"}

    return form


TURNED = "$_w = Transpose <perm = [1, 0]> ($_j)"
_ORDER = np.random.default_rng(1).permutation(WIDTH)
# Forms of weights that may be trained as well.
TRAINABLE: Mapping[str, Form] = {
    "transposed": _of_floats("$_w = Transpose <perm = [1, 0]> ($)"),
    "scaled": _of_floats("$_w = Mul ($, $s)", s=np.float32(0.3)),
    "scaled, transposed": _of_floats(f"$_j = Mul ($, $s) {TURNED}", s=np.float32(0.3)),
    "reshaped": _of_floats(
        f"$_j = Reshape ($, $s) {TURNED}", WIDTH * WIDTH, s=np.array([WIDTH, WIDTH])
    ),
    "joined": _parts(1),
    "joined, transposed": _parts(0, TURNED),
    "a part": _of_floats("$_w, $_rest = Split <axis = 1, num_outputs = 2> ($)", WIDTH, 2 * WIDTH),
    "rows in another order": _of_floats("$_w = Gather ($, $i)", i=_ORDER),
    "of unit norm": _of_floats(
        "$_q = Mul ($, $) $_m = ReduceSum ($_q, $a) $_r = Sqrt ($_m) $_d = Div ($, $_r) "
        "$_w = Mul ($_d, $g)",
        a=np.array([0]),
        g=np.ones((1, WIDTH), np.float32),
    ),
}
