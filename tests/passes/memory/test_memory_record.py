"""The record of a memory plan: what it says of each tensor is what the kernels compute."""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.artifact.memory_plan import (
    Kind,
    MemoryPlan,
    Origin,
    PlannedTensor,
    memory_plans_json,
    parse_memory_plans,
)
from odtc.core.covered import covered_bytes
from odtc.core.errors import ArtifactError
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.server.measure.call_clock import BOOKKEEPING
from tests.targets import storage_only

BATCH, RATE = 4, 0.5


def named_model() -> onnx.ModelProto:
    """Named nodes of every kind that a kernel takes up: two inputs, views, a rectifier twice."""
    rng = np.random.default_rng(0)
    shapes = {
        "first.weight": (8, 1, 3, 3),
        "first.bias": (8,),
        "second.weight": (8, 8, 3, 3),
        "head.weight": (10, 8 * 16),
        "head.bias": (10,),
    }
    nodes = [
        ("first", "Conv", ["image", "first.weight", "first.bias"], {"pads": [1, 1, 1, 1]}),
        ("bend", "Relu", ["first"], {}),
        ("second", "Conv", ["bend", "second.weight"], {"pads": [1, 1, 1, 1]}),
        ("residual", "Add", ["second", "bend"], {}),
        ("bent", "Relu", ["residual"], {}),
        ("pool", "MaxPool", ["bent"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("flat", "Flatten", ["pool"], {}),
        ("head", "Gemm", ["flat", "head.weight", "head.bias"], {"transB": 1}),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, read, [name], f"node/{name}", **a) for name, op, read, a in nodes],
        "named",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, 1, 8, 8])],
        [helper.make_tensor_value_info("head", TensorProto.FLOAT, [BATCH, 10])],
        [
            numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
            for name, shape in shapes.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(model: onnx.ModelProto, folder: Path, **options) -> odtc.Artifact:
    onnx.save(model, folder / "m.onnx")
    return odtc.compile(folder / "m.onnx", batch=BATCH, **options)


def origins(tensor: PlannedTensor) -> list[str]:
    return [str(origin) for origin in tensor.origins]


def test_origins_of_a_network_by_hand(tmp_path: Path) -> None:
    plan = compiled(named_model(), tmp_path).memory.plan
    saved = {each.tensor: origins(each) for each in plan.of_kind(Kind.SAVED)}
    assert saved["bend"] == ["node/bend", "node/first"]
    # The pooling has absorbed its rectifier, and saves what it chose and not what from.
    assert not saved.keys() & {"residual", "bent"}
    assert saved["pool"] == ["node/pool"]
    (chosen,) = (t for t in plan.of_kind(Kind.SAVED) if t.spec.dtype == "uint8")
    assert origins(chosen) == ["node/pool"]
    (summed,) = (t for t in plan.of_kind(Kind.ACTIVATION) if t.tensor == "residual")
    assert origins(summed) == ["node/residual", "node/second"]
    assert saved["head"] == ["node/head"]
    weights = {each.tensor for each in plan.of_kind(Kind.PARAMETER_GRADIENT)}
    assert weights == {
        f"gradient of {name}"
        for name in ("first.weight", "first.bias", "second.weight", "head.weight", "head.bias")
    }
    (of_flat,) = (each for each in plan.tensors if each.tensor == "gradient of flat")
    assert of_flat.kind is Kind.GRADIENT
    assert origins(of_flat) == ["gradient of node/flat"]


def test_statistics_belong_to_the_node_that_saves_them(tmp_path: Path) -> None:
    """Nodes without names; the first normalisation, with its rectifier, is applied where read.

    So its result is in no memory, but what it is computed from, and the sum computes it again.
    """
    plan = compiled(bn_model(), tmp_path).memory.plan
    saved = {each.tensor: origins(each) for each in plan.of_kind(Kind.SAVED)}
    assert "relu1" not in saved
    assert saved["conv1"] == ["-> conv1"]
    assert saved["relu2"] == ["-> relu2", "-> residual", "-> relu1", "-> bn2"]
    small = [origins(each) for each in plan.of_kind(Kind.SAVED) if each.nbytes == 32]
    assert sorted(small) == [["-> bn1"]] * 2 + [["-> bn2"]] * 2


def test_a_workspace_belongs_to_its_call(tmp_path: Path) -> None:
    plan = compiled(named_model(), tmp_path).memory.plan
    spaces = plan.of_kind(Kind.WORKSPACE)
    assert spaces
    for space in spaces:
        written = [each for each in plan.tensors if each.first == space.first]
        assert space.first == space.last
        assert {each.origins for each in written} == {space.origins}
    assert "node/second" in {name for space in spaces for name in origins(space)}


class Watching(VirtualMachineHere):
    """Keeps what each call of a kernel has written, as it is after the call."""

    def __init__(self, plan: MemoryPlan) -> None:
        super().__init__()
        self._plan = plan
        self.calls: list[str] = []
        self.values: dict[str, np.ndarray] = {}

    def load(self, library: Path) -> relax.VirtualMachine:
        machine = super().load(library)

        def observe(_, name: str, before: bool, __, *arguments) -> None:
            if before or name.startswith(BOOKKEEPING):
                return
            number = len(self.calls)
            self.calls.append(name)
            written = [each for each in self._plan.tensors if each.first == number]
            for tensor, value in zip(
                written, arguments[len(arguments) - len(written) :], strict=True
            ):
                self.values[tensor.spec.name] = value.numpy().copy()

        machine.set_instrument(observe)
        return machine


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_tensors_hold_what_they_are_named_by(precision: str, tmp_path: Path) -> None:
    """Activations against ONNX Runtime; gradients of parameters against what SGD subtracts.

    Products in float16 would have a loss scale, at which a first step may be left out.
    """
    model = named_model()
    artifact = compiled(model, tmp_path, target=storage_only(), precision=precision)
    plan = artifact.memory.plan
    session = Watching(plan)
    trainer = artifact.trainer(session)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(BATCH, 1, 8, 8)).astype(np.float32), np.arange(BATCH)
    before = trainer.parameters()
    trainer.step(x, y, RATE)
    after = trainer.parameters()
    assert tuple(session.calls) == plan.calls
    model.graph.output.extend(
        helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
        for node in model.graph.node[:-1]
    )
    runtime = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in runtime.get_outputs()]
    expected = dict(zip(names, runtime.run(None, {"image": x}), strict=True))
    expected |= {f"gradient of {name}": (before[name] - after[name]) / RATE for name in before}
    compared = {
        each.tensor: (session.values[each.spec.name], expected[each.tensor])
        for each in plan.tensors
        if each.tensor in expected
    }
    assert compared.keys() >= {
        "bend",
        "residual",
        "pool",
        "head",
        *(f"gradient of {n}" for n in before),
    }
    exact = 1e-4 if precision == "float32" else 2e-2
    for name, (found, wanted) in compared.items():
        np.testing.assert_allclose(
            found.reshape(wanted.shape), wanted, rtol=exact, atol=exact, err_msg=name
        )


def test_the_peak_is_what_the_tensors_cover(tmp_path: Path) -> None:
    """A byte at a time; and what is said elsewhere of the same arena agrees."""
    artifact = compiled(bn_model(), tmp_path)
    memory = artifact.memory
    covered = np.zeros((len(memory.plan.calls), memory.arena_bytes), np.int8)
    for each in memory.plan.tensors:
        covered[each.first : each.last + 1, each.offset : each.offset + each.nbytes] += 1
    assert covered.max() == 1
    assert tuple(covered.sum(axis=1)) == memory.plan.live_bytes
    assert covered.sum(axis=1).max() == memory.peak_bytes <= memory.lower_bound_bytes
    assert memory.lower_bound_bytes <= memory.arena_bytes
    sizes = artifact.manifest.sizes
    assert memory.arena_bytes + memory.plan.result_bytes == sizes.train_step
    assert (memory.parameter_bytes, memory.optimizer_bytes) == (sizes.parameters, sizes.optimizer)


def small_plan() -> MemoryPlan:
    origin = Origin("node", "tensor", gradient=True)
    tensors = (
        PlannedTensor(TensorSpec("a", (4, 4)), Kind.SAVED, 0, 0, 1, (origin,)),
        PlannedTensor(TensorSpec("b", (), "float16"), Kind.OTHER, 64, 1, 1),
    )
    return MemoryPlan(("one", "two"), 1, tensors, 128, 66, 4)


def parsed(text: str) -> MemoryPlan:
    (plan,) = parse_memory_plans(memory_plans_json([text]), "here")
    return plan


def test_a_plan_reads_back_as_itself(tmp_path: Path) -> None:
    for plan in (small_plan(), compiled(named_model(), tmp_path).memory.plan):
        assert parsed(plan.to_json()) == plan
    assert small_plan().live_bytes == (64, 66)
    assert not small_plan().proven_optimal


def test_what_lies_within_another_tensor_counts_once() -> None:
    host, other = small_plan().tensors
    inner = dataclasses.replace(host, spec=TensorSpec("c", (4,)), offset=16)
    plan = dataclasses.replace(small_plan(), tensors=(host, inner, other))
    assert plan.live_bytes == (64, 66)


def test_what_is_alive_is_found_in_time_for_any_plan() -> None:
    """Tensors that are all alive for half of the step: each call looked at all of them."""
    count = 20_000
    host = small_plan().tensors[0]
    tensors = tuple(
        dataclasses.replace(host, offset=64 * (n % 512), first=n // 2, last=n // 2 + count // 2 - 1)
        for n in range(count)
    )
    plan = dataclasses.replace(small_plan(), calls=("one",) * count, tensors=tensors)
    begin = time.process_time()
    assert plan.live_bytes[0] == 2 * 64
    assert plan.peak_bytes == 64 * 512
    assert time.process_time() - begin < 10


@given(st.lists(st.tuples(*[st.integers(0, 12)] * 4), max_size=12), st.integers(1, 13))
def test_covered_bytes_are_those_that_some_tensor_covers(stays: list, times: int) -> None:
    ordered = [(min(a, b), max(a, b), min(c, d), max(c, d)) for a, b, c, d in stays]
    bytes_at = [
        {byte for a, b, first, last in ordered if first <= time <= last for byte in range(a, b)}
        for time in range(times)
    ]
    assert covered_bytes(ordered, times) == tuple(map(len, bytes_at))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"calls": ["one"]}, "a lives in calls 0 to 1; there are 1"),
        ({"arena_bytes": 65}, "b does not lie within 65 bytes"),
        ({"arena_bytes": "many"}, "ValueError"),
        ({"tensors": [{}]}, "KeyError"),
        ({"tensors": 3}, "TypeError"),
        ({"surplus": 3}, "surplus"),
        ({"backward": None}, "TypeError"),
    ],
)
def test_a_damaged_plan_is_refused(change: dict, why: str) -> None:
    text = json.dumps(json.loads(small_plan().to_json()) | change)
    with pytest.raises(ArtifactError, match=why):
        parsed(text)


@pytest.mark.parametrize("text", ["", "{}", "[[]]", "nan", '[{"calls": []}]', b"\xff"])
def test_what_is_no_plan_is_refused(text: str | bytes) -> None:
    with pytest.raises(ArtifactError, match="memory plan is damaged"):
        parse_memory_plans(text, "here")


@pytest.mark.parametrize(
    ("field", "value"),
    [("dtype", "float9"), ("shape", [-4, 4]), ("shape", None), ("surplus", 1)],
)
def test_a_damaged_tensor_is_refused(field: str, value: object) -> None:
    data = json.loads(small_plan().to_json())
    data["tensors"][0]["spec"][field] = value
    with pytest.raises(ArtifactError, match="memory plan is damaged"):
        parsed(json.dumps(data))
