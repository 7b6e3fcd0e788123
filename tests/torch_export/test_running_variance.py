"""Running statistics move as the module's own, so that validations are those of PyTorch."""

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import odtc
from odtc.core.errors import ModelError
from odtc.core.onnx_model.running_variance import KEY, is_unbiased

BATCH, STEPS = 8, 5


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, 2, 1),
        nn.BatchNorm2d(16, momentum=0.3),
        nn.Flatten(),
        nn.Linear(16 * 4, 4),
    )


def vectors() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


CASES = {"images": (images, (3, 8, 8)), "vectors": (vectors, (12,))}


def drawn(shape: tuple[int, ...], samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, *shape)).astype(np.float32)
    return x, rng.integers(0, 4, samples).astype(np.int32)


def loss_of(module: nn.Module, x: np.ndarray, y: np.ndarray) -> Tensor:
    return nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y).long())


@pytest.mark.parametrize(("name", "parts"), [("images", 1), ("vectors", 1), ("vectors", 2)])
def test_five_steps_and_a_validation_are_those_of_pytorch(name: str, parts: int, tmp_path: Path):
    make, shape = CASES[name]
    torch.manual_seed(0)
    module = make()
    odtc.from_torch(module, torch.zeros(BATCH, *shape), tmp_path / "m.onnx")
    split = {"micro_batches": parts, "allow_split_batchnorm": True} if parts > 1 else {}
    artifact = odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss="cross-entropy", **split)
    trainer = artifact.trainer(threads=1)
    x, y = drawn(shape, BATCH * STEPS, 0)
    batches = [(x[n : n + BATCH], y[n : n + BATCH]) for n in range(0, len(x), BATCH)]
    validation = drawn(shape, 37, 1)
    history = trainer.fit(batches, lr=0.05, validation=validation)
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    for a, b in batches:
        optimizer.zero_grad()
        for part in np.split(np.arange(BATCH), parts):
            (loss_of(module, a[part], b[part]) / parts).backward()
        optimizer.step()
    module.eval()
    expected = loss_of(module, *validation).item()
    assert history["val_loss"] == [pytest.approx(expected, abs=2e-6)]
    fresh = trainer.to_torch(make())
    for key, tensor in module.state_dict().items():
        if parts == 1 or "num_batches" not in key:
            torch.testing.assert_close(fresh.state_dict()[key], tensor, atol=1e-6, rtol=1e-5)


def test_a_file_of_another_exporter_follows_onnx(tmp_path: Path):
    """Which divides by n, as Keras does; the training form of a file keeps what it says."""
    module = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8))
    ours, other = tmp_path / "ours.onnx", tmp_path / "other.onnx"
    odtc.from_torch(module, torch.zeros(BATCH, 12), ours)
    model = onnx.load(ours)
    kept = [item for item in model.metadata_props if item.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    onnx.save(model, other)
    moved = {}
    x, _ = drawn((12,), BATCH, 0)
    for path in (ours, other):
        trainer = odtc.compile(path, batch=BATCH, loss="mse").trainer(threads=1)
        trainer.step(x, np.zeros((BATCH, 8), np.float32), lr=0.0)
        moved[path] = trainer.parameters()["1.running_var"] - 0.9
        trainer.export_onnx(tmp_path / "again.onnx", training=True)
        assert is_unbiased(onnx.load(tmp_path / "again.onnx")) == (path == ours)
    np.testing.assert_allclose(moved[other] * BATCH / (BATCH - 1), moved[ours], rtol=1e-5)
    still = copy.deepcopy(module)
    still(torch.tensor(x))
    expected = still.state_dict()["1.running_var"].numpy() - 0.9
    np.testing.assert_allclose(moved[ours], expected, rtol=1e-4)


def test_another_divisor_is_refused(tmp_path: Path):
    path = tmp_path / "m.onnx"
    odtc.from_torch(vectors(), torch.zeros(BATCH, 12), path)
    model = onnx.load(path)
    next(item for item in model.metadata_props if item.key == KEY).value = "n-2"
    onnx.save(model, path)
    with pytest.raises(ModelError, match="running variances are said to be of 'n-2'"):
        odtc.compile(path, batch=BATCH)
