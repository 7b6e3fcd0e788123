"""Elementwise kernels of the backward pass read copies, with the same values."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.reference.pytorch import TorchTrainer
from odtc.artifact import Artifact
from odtc.backends import lowering
from odtc.core.artifact.memory_plan import Kind
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images import copies
from odtc.passes.graph.absorb_activation import AbsorbActivation
from odtc.passes.graph.read_copies import ReadCopies
from odtc.passes.graph.read_normalised import ReadNormalised
from odtc.passes.graph.slice_splits import SliceSplits
from odtc.passes.ir.bindings import bindings_of
from tests.fast import examples, fast_if
from tests.host import loaded
from tests.numeric.conftest import relative_error

Emit = Callable[[relax.Expr], relax.Var]
Join = Callable[[Emit, Sequence[relax.Var]], relax.Var]


def step(
    shapes: Sequence[tuple[int, ...]],
    join: Join,
    anchor: Callable[[relax.Expr], relax.Expr] | None = R.sum,
    *,
    is_read_by_sum: bool = False,
    distance: int = 0,
    is_read_last: bool = False,
) -> tvm.IRModule:
    """Rectifiers, a copy of all, a loss; then the gradients, and before or after a reader of it."""
    builder = relax.BlockBuilder()
    data = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("step", data):
        with builder.dataflow():
            branches = [builder.emit(R.nn.relu(each)) for each in data]
            joined = join(builder.emit, branches)
            loss = builder.emit(R.sum(builder.emit(R.exp(joined))))
            # The rest of the backward, for which the copy is kept.
            found = [loss, *(builder.emit(R.sum(data[0])) for _ in range(99))]
            if anchor and not is_read_last:
                found.append(builder.emit(anchor(joined)))
            if is_read_by_sum:
                found.append(builder.emit(R.sum(branches[0])))
            for _ in range(distance):
                found.append(builder.emit(R.sum(data[0])))
            zero = relax.const(np.float32(0))
            for branch, each in zip(branches, data, strict=True):
                found.append(
                    builder.emit(R.where(builder.emit(R.greater(branch, zero)), each, zero))
                )
            if anchor and is_read_last:
                found.append(builder.emit(anchor(joined)))
            results = [builder.emit_output(each) for each in found]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


def backward_reads(module: tvm.IRModule) -> list[str]:
    """Returns the operators that make the first operand of each comparison."""
    values = {b.var: b.value for b in bindings_of(module["step"])}
    compared = [v.args[0] for v in values.values() if operator_of(v) == "relax.greater"]
    return [operator_of(values[each]) for each in compared]


def run(module: tvm.IRModule, data: Sequence[np.ndarray]) -> list[np.ndarray]:
    executable = loaded(module)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return [each.numpy() for each in machine["step"](*map(tvm.runtime.tensor, data))]


def concat(axis: int) -> Join:
    return lambda emit, branches: emit(R.concat(list(branches), axis))


def concat_last(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
    return emit(copies.concat_last(*branches))


def shuffle(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
    split = emit(R.reshape(branches[0], (2, 3, 2, 4, 5)))
    return emit(R.reshape(emit(R.permute_dims(split, [0, 2, 1, 3, 4])), (2, 6, 4, 5)))


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], Join]:
    """Branches that differ along one axis; joins of joins, with shapes and orders between."""
    shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = [*draw(st.permutations(range(len(shape) - 1))), len(shape) - 1]
    is_nested, is_negative = draw(st.booleans()), draw(st.booleans())

    def join(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
        place = axis - len(shape) if is_negative else axis
        joined = emit(R.concat(list(branches), place))
        if is_nested:
            joined = emit(R.concat([joined, branches[0], joined], place))
        turned = emit(R.permute_dims(joined, order))
        return emit(R.reshape(turned, (-1, int(turned.ty.shape[-1]))))

    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes], join


@settings(max_examples=examples(8), deadline=None)
@given(joins())
def test_the_same_values(drawn: tuple[list[tuple[int, ...]], Join]) -> None:
    shapes, join = drawn
    # Nothing speaks against reading the copy where it stays to the end.
    before = step(shapes, join, is_read_last=True)
    after = ReadCopies("step").run(before)
    assert "relax.nn.relu" not in backward_reads(after)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for found, expected in zip(run(after, data), run(before, data), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("join", "read"), [(concat(1), "relax.strided_slice"), (shuffle, "relax.reshape")]
)
def test_read_from_the_copy(join: Join, read: str) -> None:
    assert backward_reads(ReadCopies("step").run(step([(2, 6, 4, 5)], join))) == [read]


def test_a_concat_of_channels_that_are_last_is_one_along_the_last_axis() -> None:
    """The same is read, of it and of a longer concat of the same tensors."""

    def twice(join: Join) -> Join:
        def joined(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
            first = join(emit, branches[:2])
            emit(R.exp(first))
            return join(emit, branches)

        return joined

    shapes = [(2, 4, 5, 6), (2, 4, 5, 3), (2, 4, 5, 8)]
    for of in (lambda join: join, twice):
        found, wanted = (
            [
                str(binding.value.args)
                for binding in bindings_of(ReadCopies("step").run(step(shapes, of(join)))["step"])
                if operator_of(binding.value) == "relax.strided_slice"
            ]
            for join in (concat_last, concat(3))
        )
        assert found == wanted
        assert len(found) == len(shapes)


def turned(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
    return emit(R.permute_dims(branches[0], [0, 1, 3, 2]))


def viewed(emit: Emit, branches: Sequence[relax.Var]) -> relax.Var:
    return emit(R.reshape(branches[0], (8, 30)))


ALONE = {
    # Nothing else reads the concat's result in the backward; or it does so by element, too.
    "not-saved": lambda: step([(2, 6, 4, 5)] * 2, concat(1), None),
    "elementwise": lambda: step([(2, 6, 4, 5)] * 2, concat(1), R.negative),
    # The tensor is saved whatever the comparison reads.
    "saved-itself": lambda: step([(2, 6, 4, 5)], concat(1), is_read_by_sum=True),
    # What lay side by side would lie far apart.
    "turned": lambda: step([(2, 6, 4, 5)], turned),
    # A view is no copy.
    "viewed": lambda: step([(2, 6, 4, 5)], viewed),
    # The large copy would live longer for the sake of a small tensor.
    "far": lambda: step(
        [(2, 1, 4, 5)],
        lambda emit, b: emit(R.concat([b[0], emit(R.zeros((2, 299, 4, 5), "float32"))], 1)),
        distance=5,
    ),
}


@pytest.mark.parametrize("kind", ALONE)
def test_left_alone(kind: str) -> None:
    module = ALONE[kind]()
    tvm.ir.assert_structural_equal(ReadCopies("step").run(module), module)


class Branches(nn.Module):
    """Squeeze and expand, joined twice, with a channel shuffle and plain branches beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.left = nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Conv2d(16, 8, 1)])
        self.right = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(16, 8, 1)])
        self.mixed = nn.Conv2d(16, 16, 1)
        self.norm = nn.BatchNorm2d(16)
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        for left, right in zip(self.left, self.right, strict=True):
            x = torch.cat([torch.relu(left(x)), torch.relu(right(x))], 1)
        x = torch.relu(self.norm(self.mixed(x)))
        n, c, h, w = x.shape
        x = x.reshape(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.head(self.grouped(x).mean((2, 3)))


class Dense(nn.Module):
    """Layers that read all before them, which lie in one tensor or are joined anew for each."""

    def __init__(self, *, is_chain: bool) -> None:
        super().__init__()
        self.is_chain = is_chain
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8 + 4 * layer) for layer in range(5)])
        self.layers = nn.ModuleList([nn.Conv2d(8 + 4 * layer, 4, 1) for layer in range(4)])
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.stem(x)]
        whole = parts[0]
        for norm, layer in zip(self.norms[:-1], self.layers, strict=True):
            parts.append(layer(torch.relu(norm(whole))))
            whole = torch.cat([whole, parts[-1]] if self.is_chain else parts, 1)
        return self.head(torch.relu(self.norms[-1](whole)).mean((2, 3)))


# Each model, the channels of it that need not be saved, and those by which its arena shrinks.
MODELS = {
    # Two rectifiers before each concat, and the one before the shuffle.
    "branches": (Branches, 3 * 16, 3 * 16),
    # What the first four normalisations read; of the arena, gradients are the most after 24.
    "dense": (lambda: Dense(is_chain=False), 8 + 12 + 16 + 20, 24),
    "dense-chain": (lambda: Dense(is_chain=True), 8 + 12 + 16 + 20, 24),
}
CHANNEL_BYTES = 4 * 24 * 24 * 4
# More threads have more workspaces, and the peak may fall on those.
TARGET = "host-cpu{threads=1}"


# Dimensions of images, whose positions may be one.
IMAGE = 3


def exported(name: str, path: Path) -> onnx.ModelProto:
    torch.manual_seed(0)
    export(MODELS[name][0](), {"x": np.zeros((4, 3, 24, 24), np.float32)}, path)
    return onnx.load(path)


def without_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are compiled as if nothing were read from copies."""
    monkeypatch.setattr(
        lowering,
        "rewrite_phase",
        lambda step, _, rewrites: (AbsorbActivation(step), ReadNormalised(step, 8), *rewrites),
    )


def saved_bytes(artifact: Artifact, least: int = 0) -> int:
    """Of what waits for the backward pass, and has so many dimensions."""
    saved = artifact.memory.plan.of_kind(Kind.SAVED)
    return sum(tensor.nbytes for tensor in saved if len(tensor.spec.shape) >= least)


@pytest.mark.parametrize("name", fast_if("dense-chain".__eq__, MODELS))
def test_a_training_step_is_exact_and_smaller(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against PyTorch in double precision, and to the bit against a step without the passes."""
    model = exported(name, tmp_path / "m.onnx")
    reference = TorchTrainer(model, lr=0.01, dtype=torch.float64)
    after = odtc.compile(tmp_path / "m.onnx", target=TARGET)
    without_passes(monkeypatch)
    before = odtc.compile(tmp_path / "m.onnx", target=TARGET)
    trainers = [artifact.trainer() for artifact in (after, before)]
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal((4, 3, 24, 24)).astype(np.float32)
        y = rng.integers(0, 10, 4)
        losses = [trainer.step(x, y, lr=0.01) for trainer in trainers]
        assert losses == pytest.approx([reference.step(x, y)] * 2, rel=1e-5)
    expected = reference.parameters()
    found, other = (trainer.parameters() for trainer in trainers)
    for weight, value in found.items():
        assert relative_error(value, expected[weight]) < 1e-4, weight
        np.testing.assert_array_equal(value, other[weight])
    _, unsaved, shrunk = MODELS[name]
    # Of images exactly; without the passes some running statistics wait as well.
    assert saved_bytes(before, IMAGE) - saved_bytes(after, IMAGE) == unsaved * CHANNEL_BYTES
    assert saved_bytes(before) - saved_bytes(after) >= unsaved * CHANNEL_BYTES
    sizes = [artifact.manifest.sizes.train_step for artifact in (after, before)]
    assert sizes[0] <= sizes[1] - shrunk * CHANNEL_BYTES


@pytest.mark.parametrize("name", fast_if("branches".__eq__, ["branches", "dense"]))
def test_what_waits_in_half_precision_is_saved_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(name, tmp_path / "m.onnx")
    half = odtc.compile(tmp_path / "m.onnx", precision="mixed").manifest.sizes.train_step
    without_passes(monkeypatch)
    before = odtc.compile(tmp_path / "m.onnx", precision="mixed").manifest.sizes.train_step
    assert half < before


def split_step(reader: str, sections: int | list[int]) -> tvm.IRModule:
    """A split, each part of which is read by a choice or by a sum."""
    x = relax.Var("x", relax.TensorType((2, 7, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("step", [x]):
        with builder.dataflow():
            zero = relax.const(np.float32(0))
            parts = builder.emit(R.split(builder.emit(R.negative(x)), sections, 1))
            found = []
            for index in range(len(parts.ty.fields)):
                part = builder.emit(relax.TupleGetItem(parts, index))
                mask = builder.emit(R.greater(R.zeros(part.ty.shape, "float32"), zero))
                if reader == "choice":
                    found.append(builder.emit(R.where(mask, zero, part)))
                else:
                    found.append(builder.emit(R.add(part, part)))
            if reader == "twice":
                found.append(builder.emit(R.exp(builder.emit(relax.TupleGetItem(parts, 0)))))
            results = [builder.emit_output(each) for each in found]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


@pytest.mark.parametrize("sections", [[2], [1, 4], [3, 5, 6], 2, 3])
def test_splits_become_slices(sections: int | list[int]) -> None:
    before = split_step("choice", sections)
    after = SliceSplits("step").run(before)
    names = [operator_of(binding.value) for binding in bindings_of(after["step"])]
    assert "relax.split" not in names
    x = np.random.default_rng(0).standard_normal((2, 7, 3)).astype(np.float32)
    for found, expected in zip(run(after, [x]), run(before, [x]), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reader", ["sum", "twice"])
def test_splits_stay_where_sums_read_them(reader: str) -> None:
    before = split_step(reader, [2])
    tvm.ir.assert_structural_equal(SliceSplits("step").run(before), before)
