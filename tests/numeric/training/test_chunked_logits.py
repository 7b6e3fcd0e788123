"""Heads with many words: no tensor of all logits, and the losses and weights of PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import numpy_helper
from torch import Tensor

import odtc
from odtc.passes.chunks.chunk_logits import ChunkLogits
from tests.numeric.conftest import weight

BATCH, LENGTH, WIDTH, WORDS, STEPS = 2, 90, 16, 16400, 5
ROWS = BATCH * LENGTH
SHAPES = {
    "table": (WORDS, WIDTH),
    "inner": (WIDTH, WIDTH),
    "head": (WIDTH, WORDS),
    "rows": (WORDS, WIDTH),
    "bias": (WORDS,),
    "cap": (),
}
HIDDEN = "h0 = Gather (table, ids) h1 = MatMul (h0, inner) h = Tanh (h1)"
TIED = f"{HIDDEN} t = Transpose <perm = [1, 0]> (table) logits = MatMul (h, t)"
HEADS = {
    "tied": TIED,
    "a matrix of its own": f"{HIDDEN} logits = MatMul (h, head)",
    "transposed, with a bias": (
        f"{HIDDEN} t = Transpose <perm = [1, 0]> (rows) y = MatMul (h, t) logits = Add (y, bias)"
    ),
    "capped": f"{TIED.replace('logits', 'y')} z = Div (y, cap) u = Tanh (z) logits = Mul (u, cap)",
}


def head_model(nodes: str, length: int = LENGTH, ids: int = LENGTH) -> onnx.ModelProto:
    """From `ids` int64[2, ids] to logits [2, length, 16400]."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        head (int64[{BATCH}, {ids}] ids) => (float[{BATCH}, {length}, {WORDS}] logits)
        {{ {nodes} }}"""
    )
    tensors = {name: weight(*shape) for name, shape in SHAPES.items()}
    tensors["cap"] = np.array(2.0, np.float32)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in tensors.items()
        if name in read
    )
    return model


def tokens() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, WORDS, (BATCH, LENGTH))
    ids[:, :9] = 5  # Some words are read often.
    labels = rng.integers(0, WORDS, (BATCH, LENGTH))
    labels[0, 40:] = -100
    return ids, labels


class Reference(torch.nn.Module):
    """The same in PyTorch."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        self.tensors = torch.nn.ParameterDict(
            {t.name: torch.tensor(numpy_helper.to_array(t)) for t in model.graph.initializer}
        )

    def forward(self, ids: Tensor) -> Tensor:
        own = self.tensors
        h = torch.tanh(own["table"][ids] @ own["inner"])
        if "head" in own:
            return h @ own["head"]
        if "rows" in own:
            return h @ own["rows"].T + own["bias"]
        y = h @ own["table"].T
        return own["cap"] * torch.tanh(y / own["cap"]) if "cap" in own else y


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Callable[..., odtc.Artifact]:
    """Compiles with all logits at once."""

    def compile_whole(*arguments, **options) -> odtc.Artifact:
        with monkeypatch.context() as patch:
            patch.setattr(ChunkLogits, "run", lambda _, module: module)
            return odtc.compile(*arguments, **options)

    return compile_whole


def largest(artifact: odtc.Artifact) -> int:
    """Bytes of the largest tensor of a step."""
    return max(tensor.nbytes for tensor in artifact.memory.plan.tensors)


def logits_at_once(artifact: odtc.Artifact) -> int:
    """The most bytes of logits, and of their gradients, that a step holds at one time."""
    plan = artifact.memory.plan
    wide = [
        each
        for each in plan.tensors
        if each.spec.shape[-1:] == (WORDS,) and each.nbytes > WORDS * 4
    ]
    return max(
        sum(each.nbytes for each in wide if each.first <= call <= each.last)
        for call in range(len(plan.calls))
    )


def all_logits(rows: int = ROWS) -> int:
    return 4 * rows * WORDS


@pytest.mark.parametrize("kind", HEADS)
def test_five_steps_are_those_of_pytorch(kind: str, tmp_path: Path) -> None:
    model, (ids, labels) = head_model(HEADS[kind]), tokens()
    onnx.save(model, tmp_path / "m.onnx")
    frozen = ["cap"] if "cap" in HEADS[kind] else []
    artifact = odtc.compile(
        tmp_path / "m.onnx", loss=odtc.CrossEntropy(axis=2, ignore_index=-100), freeze=frozen
    )
    assert largest(artifact) < all_logits() / 2
    # A cap makes two tensors of a chunk, which is a third.
    assert logits_at_once(artifact) <= all_logits() * 2 / 3
    trainer, reference = artifact.trainer(threads=2), Reference(model)
    optimizer = torch.optim.SGD(
        [each for name, each in reference.tensors.items() if name != "cap"], lr=0.3
    )
    for _ in range(STEPS):
        logits, given = reference(torch.tensor(ids)), torch.tensor(labels)
        loss = F.cross_entropy(logits.flatten(0, 1), given.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found = trainer.step(ids, labels, lr=0.3)
        assert float(found) == pytest.approx(loss.item(), rel=1e-6)
    for name, array in trainer.parameters().items():
        expected = reference.tensors[name].detach().numpy()
        assert np.abs(array - expected).max() < 2e-6 * max(1, np.abs(expected).max()), name
    logits = trainer.evaluate(ids)
    expected = reference(torch.tensor(ids)).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


SHIFTED = f"{TIED.replace('logits', 'y')} logits = Slice (y, start, end, axes)"


def test_logits_of_all_but_the_last_token(tmp_path: Path) -> None:
    model, (ids, labels) = head_model(SHIFTED, LENGTH - 1), tokens()
    give(model, start=0, end=-1, axes=1)
    onnx.save(model, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss=odtc.CrossEntropy(axis=2, ignore_index=-100))
    assert largest(artifact) < all_logits() / 2
    check_shifted(artifact, model, (ids, labels[:, 1:]), ids, labels[:, 1:])


def test_a_loss_within_the_model(tmp_path: Path) -> None:
    """As exporters write that of a language model: scores and labels are shifted there."""
    model, (ids, labels) = head_model(SHIFTED.replace("logits =", "z =")), tokens()
    body = onnx.parser.parse_graph(
        f"""shifted (float[{BATCH}, {LENGTH - 1}, {WORDS}] z, int64[{BATCH}, {LENGTH}] labels)
        => (float loss) {{
            l = Slice (labels, one, most, axes)
            f = Reshape (z, flat)
            g = Reshape (l, all)
            loss = SoftmaxCrossEntropyLoss <ignore_index = -100, reduction = "mean"> (f, g)
        }}"""
    )
    model.graph.node.extend(body.node)
    model.graph.input.append(body.input[1])
    del model.graph.output[:]
    model.graph.output.extend(body.output)
    give(model, start=0, end=-1, axes=1, one=1, most=1 << 30, all=-1)
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, WORDS]), "flat"))
    onnx.save(model, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss={"loss": "in-model"})
    assert largest(artifact) < all_logits() / 2
    fed = {"ids": ids, "labels": labels}
    check_shifted(artifact, model, (fed,), ids, labels[:, 1:])


def give(model: onnx.ModelProto, **numbers: int) -> None:
    """Adds constants of one integer."""
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array([number]), name) for name, number in numbers.items()
    )


def check_shifted(artifact, model, fed, ids: np.ndarray, labels: np.ndarray) -> None:
    """Compares losses with those of PyTorch for logits of all tokens but the last."""
    kept = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in list(kept.graph.initializer):
        if tensor.name not in SHAPES:
            kept.graph.initializer.remove(tensor)
    trainer, reference = artifact.trainer(threads=2), Reference(kept)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.3)
    for _ in range(STEPS):
        logits, given = reference(torch.tensor(ids))[:, :-1], torch.tensor(labels)
        loss = F.cross_entropy(logits.flatten(0, 1), given.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(trainer.step(*fed, lr=0.3)) == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "update"),
    [
        ({"label_smoothing": 0.1}, odtc.SGD()),
        ({"weight": tuple(np.linspace(0.5, 2, WORDS)), "ignore_index": -100}, odtc.AdamW()),
        ({"reduction": "sum", "ignore_index": -100}, odtc.Update(odtc.SGD(), clip_norm=1.0)),
        ({"ignore_index": -100}, odtc.Update(odtc.SGD(), accumulate=2)),
        ({"ignore_index": -100}, odtc.Update(odtc.SGD(), loss_scale="dynamic")),
    ],
    ids=["smoothed", "weighted", "sum", "accumulated", "scaled"],
)
def test_options_give_what_they_give_at_once(options, update, whole, tmp_path: Path) -> None:
    ids, labels = tokens()
    if "ignore_index" not in options:
        labels = np.abs(labels)
    onnx.save(head_model(TIED), tmp_path / "m.onnx")
    given = {"loss": odtc.CrossEntropy(axis=2, **options), "optimizer": update}
    chunked = odtc.compile(tmp_path / "m.onnx", **given)
    at_once = whole(tmp_path / "m.onnx", **given)
    assert largest(chunked) < all_logits() / 2
    assert logits_at_once(chunked) <= all_logits() * 2 / 3
    assert largest(at_once) >= all_logits()
    found = []
    for artifact in (chunked, at_once):
        trainer = artifact.trainer(threads=2)
        losses = [float(trainer.step(ids, labels, lr=1e-3)) for _ in range(4)]
        found.append((losses, trainer.parameters()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-6)
    for name, array in found[0][1].items():
        np.testing.assert_allclose(array, found[1][1][name], rtol=1e-4, atol=2e-6)


def test_adapters_of_a_head_are_chunked_with_it(whole, tmp_path: Path) -> None:
    ids, labels = tokens()
    onnx.save(head_model(HEADS["a matrix of its own"]), tmp_path / "m.onnx")
    given = {
        "loss": odtc.CrossEntropy(axis=2, ignore_index=-100),
        "lora": odtc.LoRA(rank=3, targets="head|inner"),
        "optimizer": odtc.AdamW(),
    }
    artifacts = odtc.compile(tmp_path / "m.onnx", **given), whole(tmp_path / "m.onnx", **given)
    assert largest(artifacts[0]) < all_logits() / 2 <= largest(artifacts[1])
    losses = [
        [float(trainer.step(ids, labels, lr=1e-2)) for _ in range(STEPS)]
        for trainer in (artifact.trainer() for artifact in artifacts)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-6)


def test_threads_change_no_bit(tmp_path: Path) -> None:
    ids, labels = tokens()
    onnx.save(head_model(TIED), tmp_path / "m.onnx")
    loss = odtc.CrossEntropy(axis=2, ignore_index=-100)
    artifact = odtc.compile(tmp_path / "m.onnx", loss=loss)
    tables = []
    for threads in (1, 2):
        trainer = artifact.trainer(threads=threads)
        for _ in range(2):
            trainer.step(ids, labels, lr=0.1)
        tables.append(trainer.parameters()["table"])
    assert (tables[0] == tables[1]).all()


def test_a_gradient_that_grows_has_one_tensor(tmp_path: Path) -> None:
    """Neither does that of the words that are read have one."""
    onnx.save(head_model(TIED), tmp_path / "m.onnx")
    artifact = odtc.compile(
        tmp_path / "m.onnx", loss=odtc.CrossEntropy(axis=2), optimizer=odtc.AdamW()
    )
    tables = [t for t in artifact.memory.plan.tensors if t.spec.shape == SHAPES["table"]]
    assert len({tensor.offset for tensor in tables}) == 1
    assert "add_rows" in artifact.memory.plan.calls


def test_many_tokens_have_as_many_chunks_as_are_allowed(tmp_path: Path) -> None:
    """A chunk of them still is worth a cut: no chunk is cut again."""
    onnx.save(head_model(TIED, 3000, 3000), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss=odtc.CrossEntropy(axis=2))
    rows = [t.spec.shape[0] for t in artifact.memory.plan.tensors if t.spec.shape[1:] == (WORDS,)]
    assert rows
    assert min(rows) > 300


@pytest.mark.parametrize("rows", [1, 64, 65, 180, 1024, 1025, 1027, 2200, 4096, 151_936])
def test_sizes_of_chunks(rows: int) -> None:
    sizes = ChunkLogits(product=unused)._sizes(rows)
    assert sum(sizes) == rows
    assert 1 <= len(sizes) <= 16
    assert min(sizes) > 0


def unused(*_) -> NoReturn:
    raise AssertionError


def test_few_words_stay_at_once(tmp_path: Path) -> None:
    model = head_model(TIED)
    del model.graph.initializer[:]
    model.graph.initializer.extend(
        numpy_helper.from_array(weight(*shape), name)
        for name, shape in {"table": (500, WIDTH), "inner": (WIDTH, WIDTH)}.items()
    )
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 500
    onnx.save(model, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss=odtc.CrossEntropy(axis=2))
    shapes = {tensor.spec.shape for tensor in artifact.memory.plan.tensors}
    assert (ROWS, 500) in shapes


def test_a_gpu_takes_the_same_steps(tmp_path: Path) -> None:
    """PoCL: nothing is written in place there, so the gradient that grows has two tensors."""
    ids, labels = tokens()
    onnx.save(head_model(TIED), tmp_path / "m.onnx")
    loss = odtc.CrossEntropy(axis=2, ignore_index=-100)
    losses = []
    for target in ("host-cpu", "host-opencl"):
        artifact = odtc.compile(tmp_path / "m.onnx", loss=loss, target=target)
        assert largest(artifact) < all_logits() / 2
        trainer = artifact.trainer()
        losses.append([float(trainer.step(ids, labels, lr=0.3)) for _ in range(3)])
    np.testing.assert_allclose(*losses, rtol=2e-6)
