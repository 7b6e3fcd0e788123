"""Batch normalisations are applied where they are read: no bit changes, and less is in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import tvm
from torch import nn
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.reference.pytorch import TorchTrainer
from odtc.artifact import Artifact
from odtc.core.artifact.memory_plan import Kind
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.elements.pointwise import hard_swish
from odtc.dialect.images.batch_norm import batch_norm, batch_statistics, normalised
from odtc.passes.graph.read_normalised import ReadNormalised
from odtc.passes.ir.bindings import bindings_of
from odtc.runtime_rpc.trainer import Trainer
from tests.fast import fast_if
from tests.numeric.conftest import relative_error

SHAPE = (2, 8, 6, 6)
# More threads have more workspaces, and the peak may fall on those.
TARGET = "host-cpu{threads=1}"


def convolved(image: relax.Expr, *, layout: str = "NCHW") -> relax.Call:
    channels = int(image.ty.shape[layout.index("C")])
    w = relax.const(np.ones((4, channels, 3, 3), np.float32))
    return R.nn.conv2d(image, w, padding=1, data_layout=layout)


# What reads the normalised data, and how many of its readers compute it themselves.
READERS = {
    "convolution": (lambda y: [convolved(y)], 1),
    "elementwise": (lambda y: [R.add(y, y)], 1),
    "several": (lambda y: [convolved(y), R.negative(y), R.add(y, y)], 3),
    "own": (lambda y: [hard_swish(y)], 1),
    "none": (lambda _: [], 0),
}
# What reads it in memory.
WHOLE = {
    "sum": lambda y: [convolved(y), R.sum(y, [2, 3])],
    "rows": lambda y: [R.nn.softmax(y)],
    "concat": lambda y: [R.concat([y, y], 1)],
    "weight": lambda y: [R.nn.conv2d(R.zeros((2, 8, 6, 6), "float32"), y)],
    "spread": lambda y: [R.add(y, R.zeros((3, *SHAPE), "float32"))],
    "last": lambda y: [convolved(y, layout="NHWC")],
    "result": lambda y: [y],
    # Each of its readers would read it over and over.
    "many": lambda y: [R.add(y, R.zeros(SHAPE, "float32")) for _ in range(5)],
}


def step(readers, *, is_shared: bool = False) -> tvm.IRModule:
    """A normalisation, its running mean and what reads it."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    rest = [relax.Var(f"p{i}", relax.TensorType((8,), "float32")) for i in range(4)]
    with builder.function("step", [x, *rest]):
        with builder.dataflow():
            scaling = [rest[0], rest[0] if is_shared else rest[1]]
            call = batch_norm(x, *scaling, *rest[2:], epsilon=1e-5, momentum=0.1, activation="")
            found = builder.emit(call)
            y = builder.emit(relax.TupleGetItem(found, 0))
            results = [builder.emit(relax.TupleGetItem(found, 1))]
            results += [each if each is y else builder.emit(each) for each in readers(y)]
            given = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(given)
    return builder.finalize()


def names_in(module: tvm.IRModule) -> list[str]:
    return [operator_of(binding.value) for binding in bindings_of(module["step"])]


@pytest.mark.parametrize("kind", READERS)
def test_each_reader_computes_it(kind: str) -> None:
    readers, count = READERS[kind]
    after = ReadNormalised("step", 4).run(step(readers))
    relax.analysis.well_formed(after)
    names = names_in(after)
    assert (batch_norm.name in names, names.count(batch_statistics.name)) == (False, 1)
    assert names.count(normalised.name) == count


@pytest.mark.parametrize("kind", WHOLE)
def test_left_alone(kind: str) -> None:
    module = step(WHOLE[kind])
    tvm.ir.assert_structural_equal(ReadNormalised("step", 4).run(module), module)


def test_tensors_that_are_one_are_left_alone() -> None:
    """A kernel has each of its tensors once."""
    module = step(READERS["convolution"][0], is_shared=True)
    tvm.ir.assert_structural_equal(ReadNormalised("step", 4).run(module), module)


class Net(nn.Module):
    """Plain, strided, grouped and depthwise convolutions of normalised images, and a sum of two."""

    def __init__(self) -> None:
        super().__init__()

        def layer(*sizes: int, after: nn.Module, **options: int) -> nn.Sequential:
            conv = nn.Conv2d(*sizes, bias=False, **options)
            return nn.Sequential(conv, nn.BatchNorm2d(sizes[1]), after)

        self.stem = layer(3, 16, 3, padding=1, stride=2, after=nn.ReLU6())
        self.depthwise = layer(16, 16, 3, padding=1, groups=16, after=nn.ReLU())
        self.point = layer(16, 16, 1, after=nn.Identity())
        self.square = layer(16, 16, 3, padding=1, after=nn.Identity())
        self.steps = layer(16, 32, 1, stride=2, after=nn.ReLU6())
        self.grouped = layer(32, 32, 3, padding=1, groups=4, after=nn.Hardswish())
        self.joined = layer(64, 8, 3, padding=1, after=nn.ReLU())
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depthwise(self.stem(x))
        x = torch.relu(self.point(x) + self.square(x))
        x = self.steps(x)
        return self.head(self.joined(torch.cat([x, self.grouped(x)], 1)).mean((2, 3)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network, with shifts that are not zero: what is around an image is none of it."""
    path = tmp_path_factory.mktemp("net") / "m.onnx"
    torch.manual_seed(0)
    net = Net()
    for name, value in net.named_parameters():
        if value.ndim == 1 and name != "head.bias":
            nn.init.uniform_(value, 0.5, 1.5)
    export(net, {"x": np.zeros((4, 3, 20, 20), np.float32)}, path)
    return path


def both(monkeypatch: pytest.MonkeyPatch, model: Path, **options) -> tuple[Artifact, Artifact]:
    """A step with the pass, and one without."""
    after = odtc.compile(model, TARGET, **options)
    monkeypatch.setattr(ReadNormalised, "run", lambda _, module: module)
    return after, odtc.compile(model, TARGET, **options)


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    for _ in range(3):
        yield rng.standard_normal((4, 3, 20, 20)).astype(np.float32), rng.integers(0, 10, 4)


def same_losses(trainers: Sequence[Trainer]) -> list[float]:
    """Of some steps, which all trainers agree on to the bit."""
    found = [[trainer.step(x, y, lr=0.05) for trainer in trainers] for x, y in batches()]
    assert all(len(set(losses)) == 1 for losses in found), found
    return [losses[0] for losses in found]


def test_a_step_is_exact_and_smaller(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against PyTorch in double precision, and to the bit against a step without the pass."""
    artifacts = both(monkeypatch, model)
    trainers = [artifact.trainer() for artifact in artifacts]
    reference = TorchTrainer(onnx.load(model), lr=0.05, dtype=torch.float64)
    expected = [reference.step(x, y) for x, y in batches()]
    assert same_losses(trainers) == pytest.approx(expected, rel=1e-5)
    found, other = (trainer.parameters() for trainer in trainers)
    expected = reference.parameters()
    for name, value in found.items():
        np.testing.assert_array_equal(value, other[name])
        assert relative_error(value, expected[name]) < 1e-4, name
    after, before = (
        sum(tensor.nbytes for tensor in artifact.memory.plan.of_kind(Kind.SAVED))
        for artifact in artifacts
    )
    # Results of the stem, the depthwise and the grouped convolution; those that are summed were not
    # saved, and what is joined or averaged stays.
    assert before - after == 4 * 4 * (16 * 100 + 16 * 100 + 32 * 25)
    assert artifacts[0].memory.arena_bytes < artifacts[1].memory.arena_bytes


OPTIONS = {
    "frozen": {"train": ["head.weight", "steps.0.weight"]},
    "frozen-statistics": {"freeze": ["*.1.*"], "freeze_batch_norm": True},
    "micro-batches": {"micro_batches": 2, "allow_split_batchnorm": True},
    "accumulated": {"optimizer": odtc.Update(odtc.AdamW(), accumulate=2, clip_norm=1.0)},
}


@pytest.mark.parametrize("kind", fast_if("micro-batches".__eq__, OPTIONS))
def test_steps_of_other_kinds(kind: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts = both(monkeypatch, model, **OPTIONS[kind])
    trainers = [artifact.trainer() for artifact in artifacts]
    same_losses(trainers)
    found, other = (trainer.parameters() for trainer in trainers)
    for name, value in found.items():
        np.testing.assert_array_equal(value, other[name])


def test_a_budget(model: Path) -> None:
    """Recomputed kernels make what is read: data of a normalisation, and its statistics."""
    whole = odtc.compile(model, TARGET)
    budget = int(0.8 * whole.memory.peak_bytes)
    within = odtc.compile(model, TARGET, memory_budget=budget)
    assert within.memory.peak_bytes <= budget
    same_losses([within.trainer(), whole.trainer()])


@pytest.mark.slow
def test_mixed_precision(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data waits, rounded, in place of the normalised data: as near to float32."""
    exact = odtc.compile(model, TARGET)
    after, before = both(monkeypatch, model, precision="mixed")
    trainers = [each.trainer() for each in (exact, after, before)]
    for x, y in batches():
        first, *losses = (trainer.step(x, y, lr=0.05) for trainer in trainers)
        assert losses == pytest.approx([first] * 2, rel=5e-3)
    assert after.memory.arena_bytes < before.memory.arena_bytes
