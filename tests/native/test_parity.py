"""Steps of the native runtime, and what they leave, are those of the Python trainer, bit by bit."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import odtc
from benchmarks.models.digits import digits_model
from tests.fast import fast_if
from tests.native.parity import TARGET, assert_same_run, native_trainer
from tests.native.reader import read
from tests.numeric.mlp import batches, mlp_artifact, overflowing
from tests.numeric.plans.test_memory_budget import tower

STEPS = 5
SGD, ADAMW = odtc.SGD(momentum=0.9), odtc.AdamW(weight_decay=0.01)

UPDATES = {
    "sgd": odtc.SGD(),
    "momentum": SGD,
    "adamw": ADAMW,
    "clipped": odtc.Update(SGD, clip_norm=0.3),
    "accumulated": odtc.Update(ADAMW, accumulate=2, clip_value=0.01, ema=0.9),
    "scaled": odtc.Update(ADAMW, loss_scale="dynamic", ema=0.99),
    "grouped": odtc.Update(SGD, groups=[odtc.Group("*.bias", {"momentum": 0.5})]),
    "skipping": odtc.Update(SGD, on_nonfinite="skip"),
}


FAST = ("clipped", "accumulated", "scaled")


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, UPDATES))
def test_updates(name: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATES[name], target=TARGET)
    assert_same_run(artifact, tmp_path, batches(STEPS), 0.05)


@pytest.mark.parametrize("name", fast_if("accumulated".__eq__, ["momentum", "accumulated"]))
def test_micro_batches(name: str, tmp_path: Path) -> None:
    # The labels of a part that are not ignored say how much it counts.
    loss = {"momentum": "cross-entropy", "accumulated": "cross-entropy{ignore-index=0}"}[name]
    artifact = mlp_artifact(tmp_path, UPDATES[name], target=TARGET, micro_batches=4, loss=loss)
    assert artifact.manifest.micro_batches == 4
    assert_same_run(artifact, tmp_path, batches(STEPS), 0.05)


def test_adapters(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, ADAMW, target=TARGET, lora=odtc.LoRA(rank=2, dora=True))
    assert artifact.manifest.adapters
    assert_same_run(artifact, tmp_path, batches(STEPS), 0.05)


@pytest.fixture(scope="module")
def tower_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions, batch normalisations and dropout."""
    path = tmp_path_factory.mktemp("tower") / "tower.onnx"
    onnx.save(tower(layers=3), path)
    return path


def images(shape: tuple[int, ...], classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    return [
        (rng.standard_normal(shape, np.float32), rng.integers(0, classes, shape[0]))
        for _ in range(STEPS)
    ]


def test_batch_norms_and_dropout(tower_path: Path, tmp_path: Path) -> None:
    artifact = odtc.compile(tower_path, TARGET, batch=4, optimizer=ADAMW, seed=3)
    shape = artifact.manifest.inputs[0].shape
    assert_same_run(artifact, tmp_path, images(shape, 8), 0.01)


def test_a_budget_and_several_plans(tower_path: Path, tmp_path: Path) -> None:
    artifact = odtc.compile(tower_path, TARGET, batch=4, optimizer=SGD, memory_budget="auto")
    plans = artifact.manifest.plans
    assert len(plans) > 1

    def change(trainer, number: int) -> None:
        plan = plans[number % len(plans)]
        trainer.set_budget(artifact.manifest.budget_of(plan))
        arena = getattr(trainer, "arena_bytes", None) or trainer.plan.arena_bytes
        assert arena == plan.arena_bytes

    shape = artifact.manifest.inputs[0].shape
    assert_same_run(artifact, tmp_path, images(shape, 8), 0.01, (1, 2), change)


def test_tensors_that_wait_in_a_file(tower_path: Path, tmp_path: Path) -> None:
    fast = "host-cpu{threads=4,storage_write=1e12,storage_read=1e12}"
    plain = odtc.compile(tower_path, fast, batch=4)
    budget = int(0.7 * plain.memory.arena_bytes)
    artifact = odtc.compile(
        tower_path, fast, batch=4, memory_budget=budget, offload=True, micro_batches=1
    )
    assert artifact.manifest.stored_bytes
    shape = artifact.manifest.inputs[0].shape
    assert_same_run(artifact, tmp_path, images(shape, 8), 0.01, (2,))


def test_mixed_precision(tower_path: Path, tmp_path: Path) -> None:
    artifact = odtc.compile(tower_path, TARGET, batch=4, optimizer=SGD, precision="mixed")
    shape = artifact.manifest.inputs[0].shape
    assert_same_run(artifact, tmp_path, images(shape, 8), 0.01, (1, 2))


def test_a_convolutional_net(tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    artifact = odtc.compile(path, TARGET, batch=8, optimizer=SGD)
    assert_same_run(artifact, tmp_path, images((8, 1, 8, 8), 10), 0.05)


def test_a_transformer_with_dropout(tmp_path: Path) -> None:
    import torch

    from tests.families import WORDS, make

    module = make("distilbert", without_dropout=False)
    torch.manual_seed(1)
    ids = torch.randint(0, WORDS, (4, 6))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    odtc.from_torch(module, inputs, path := tmp_path / "model.onnx")
    artifact = odtc.compile(path, TARGET, batch=4, optimizer=odtc.Update(ADAMW, clip_norm=1.0))
    rng = np.random.default_rng(2)
    data = [
        (
            {
                each.name: (rng.integers(0, WORDS, each.shape) if "ids" in each.name else 1)
                * np.ones(each.shape, each.dtype)
                for each in artifact.manifest.inputs
            },
            rng.integers(0, 5, 4),
        )
        for _ in range(STEPS)
    ]
    assert_same_run(artifact, tmp_path, data, 0.01)


def test_updates_that_overflow_are_left_out(tmp_path: Path) -> None:
    scale = odtc.LossScale(initial=2.0**127, interval=3)
    update = odtc.Update(odtc.Adam(eps=1e-3), loss_scale=scale)
    artifact = mlp_artifact(tmp_path, update, target=TARGET)
    data = overflowing(batches(12), range(3, 9))
    assert_same_run(artifact, tmp_path, data, 0.05, (1,))
    assert all(math.isfinite(x.max()) for x, _ in data)


def test_micro_batches_of_samples_along_another_axis(tmp_path: Path) -> None:
    """Three words of each sample, all of the first words first: its pieces lie in three groups."""
    rng = np.random.default_rng(0)
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[3, 8, 4] x) => (float[3, 8, 5] y)
    { h = MatMul (x, w) r = Sigmoid (h) y = MatMul (r, v) }"""
    model = onnx.parser.parse_model(text)
    for name, shape in {"w": (4, 6), "v": (6, 5)}.items():
        value = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, path := tmp_path / "m.onnx")
    artifact = odtc.compile(
        path, TARGET, loss="mse", optimizer=SGD, batch_axis={"x": 1, "y": 1}, micro_batches=2
    )
    assert artifact.manifest.micro_batches == 2
    program = read(artifact._bundle.program.read_bytes())
    assert {each["name"]: each["groups"] for each in program.arguments[:2]} == {"x": 3, "label": 3}
    data = [
        tuple(rng.standard_normal((3, 8, n)).astype(np.float32) for n in (4, 5))
        for _ in range(STEPS)
    ]
    assert_same_run(artifact, tmp_path, data, 0.1, (2,))


def test_frozen_weights_are_read_where_they_lie_in_their_file(tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    artifact = odtc.compile(path, TARGET, batch=8, optimizer=SGD, train="fc2*")
    assert_same_run(artifact, tmp_path, images((8, 1, 8, 8), 10), 0.05, (2,))
    with native_trainer(artifact, folder := tmp_path / "mapped") as native:
        weights = (folder / "parameters.safetensors").read_bytes()
        places = mapped(folder / "parameters.safetensors")
        frozen = {name: each for (role, name), each in native.tensors.items() if role == "frozen"}
        within = {n for n, each in frozen.items() if each.ctypes.data in places}
        assert within == {name for name, each in frozen.items() if each.nbytes % 64 == 0}
        assert len(within) > 2
        # What is written there, as a checkpoint may be, stays in this process.
        for each in frozen.values():
            each[...] = 1
        assert (folder / "parameters.safetensors").read_bytes() == weights


def mapped(path: Path) -> range:
    """Where a file is mapped."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        (line,) = (line for line in maps if line.rstrip().endswith(str(path)))
    begin, end = (int(each, 16) for each in line.split()[0].split("-"))
    return range(begin, end)
