"""A file of `odtc.from_torch` trains as the module does, and the module takes the weights back."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import odtc
from odtc.core.errors import DataError, UsageError
from odtc.core.onnx_model.weight_list import read_weight_list
from odtc.core.specs import Role
from odtc.runtime_rpc.state.state_dict import State, load_state
from tests.families import BATCH, FAMILIES, Family, make

STEPS = 5
FAST = ("mlp",)


def batches(family: Family) -> Iterator[tuple[Any, Any]]:
    """Random ones, in PyTorch's own form."""
    torch.manual_seed(1)
    for _ in range(STEPS):
        yield family.inputs(BATCH), family.label(BATCH)


def arrays(inputs: Any, names: list[str]) -> dict[str, np.ndarray]:
    tensors = inputs.values() if isinstance(inputs, dict) else inputs
    return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}


def trained(name: str, folder: Path) -> tuple[odtc.Trainer, nn.Module]:
    """Both sides, after the same steps with the same losses."""
    family, module = FAMILIES[name], make(name)
    path = folder / f"{name}.onnx"
    exported = odtc.from_torch(module, family.inputs(2), path)
    artifact = odtc.compile(path, batch=BATCH, loss=family.text)
    artifact.save(folder / "step.odtc")
    trainer = odtc.load(folder / "step.odtc").trainer(threads=1)
    optimizer = torch.optim.SGD(module.parameters(), lr=family.lr)
    for x, y in batches(family):
        optimizer.zero_grad()
        loss = family.loss(module(**x) if isinstance(x, dict) else module(*x), y)
        loss.backward()
        optimizer.step()
        labels = {k: t.numpy() for k, t in y.items()} if isinstance(y, dict) else y.numpy()
        found = trainer.step(arrays(x, list(exported.inputs)), labels, lr=family.lr)
        assert found == pytest.approx(loss.item(), abs=1e-4)
    parameters = artifact.manifest.of_role(Role.PARAMETER)
    assert {item.spec.name for item in parameters} == {
        key for key, value in module.named_parameters() if value.grad is not None
    }
    return trainer, module


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in FAMILIES]
)
def test_five_steps_and_back(name: str, tmp_path: Path) -> None:
    trainer, module = trained(name, tmp_path)
    fresh = make(name).double()
    assert trainer.to_torch(fresh) is fresh
    before, after = module.state_dict(), fresh.state_dict()
    assert trainer.state_dict().keys() == before.keys()
    for key, tensor in before.items():
        assert after[key].dtype in (torch.float64, torch.int64)
        torch.testing.assert_close(after[key].to(tensor.dtype), tensor, atol=2e-4, rtol=1e-3)


class Drops(nn.Module):
    """Stochastic depth by a class that is called as timm calls it, and a layer under it."""

    class DropPath(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop_prob, self.scale_by_keep = 0.5, True

        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                return x
            kept = x.new_empty(x.shape[0], 1).bernoulli_(1 - self.drop_prob)
            return x * kept / (1 - self.drop_prob)

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(6, 6, bias=False), nn.BatchNorm1d(6)
        self.drop, self.head = self.DropPath(), nn.Linear(6, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.norm(self.inner(x))))


@pytest.fixture(scope="module")
def drops(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, odtc.Artifact]:
    """A module, and its step."""
    torch.manual_seed(0)
    module, path = Drops(), tmp_path_factory.mktemp("drops") / "model.onnx"
    odtc.from_torch(module, torch.randn(2, 6), path, output_names=["y"])
    return module, odtc.compile(path, batch=64, loss="mse", seed=3)


def test_stochastic_depth_drops_whole_samples(drops: tuple[nn.Module, odtc.Artifact]) -> None:
    """With the label 0 the loss is the sum of squares of those that are kept, doubled."""
    module, artifact = drops
    trainer = artifact.trainer(threads=1)
    x = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
    with torch.no_grad():
        whole = copy.deepcopy(module).train()
        whole.drop.drop_prob = 0.0
        alone = whole(torch.from_numpy(x)).numpy() ** 2
        evaluated = module.eval()(torch.from_numpy(x)).numpy()
        module.train()
    np.testing.assert_allclose(trainer.evaluate(x), evaluated, rtol=1e-4, atol=1e-5)
    losses = [trainer.step(x, np.zeros((64, 1), np.float32), lr=0.0) for _ in range(30)]
    assert len(set(losses)) > 20
    # Half of them are kept, with twice their size: four times the square, half of the time.
    assert np.mean(losses) == pytest.approx(2 * alone.mean(), rel=0.25)


def test_the_module_must_be_the_same(drops: tuple[nn.Module, odtc.Artifact]) -> None:
    module, artifact = drops
    trainer = artifact.trainer(threads=1)
    other = copy.deepcopy(module)
    other.head = nn.Linear(6, 2)
    other.extra = nn.Linear(1, 1)
    del other.norm
    before = {key: value.clone() for key, value in other.state_dict().items()}
    with pytest.raises(DataError) as caught:
        trainer.to_torch(other)
    text = str(caught.value)
    assert "missing in the step: head.bias, extra.weight, extra.bias" in text
    assert "not in the module: norm.bias, norm.num_batches_tracked, norm.running_mean" in text
    assert "head.weight (float32[1, 6] in the step, float32[2, 6] in the module)" in text
    assert all(torch.equal(before[key], value) for key, value in other.state_dict().items())

    tied = copy.deepcopy(module)
    tied.norm.bias = tied.norm.weight
    with pytest.raises(DataError, match=r"and two in the step: norm.weight and norm.bias"):
        trainer.to_torch(tied)
    with pytest.raises(DataError, match="on the meta device"):
        trainer.to_torch(copy.deepcopy(module).to("meta"))
    with pytest.raises(UsageError, match=r"not a torch\.nn\.Module"):
        trainer.to_torch({})  # pyright: ignore[reportArgumentType]


def test_a_tie_of_the_file_must_be_one_of_the_module() -> None:
    """And the module takes one value under both names."""
    value = np.full((2, 2), 3.0, np.float32)
    both = {"0.weight": value, "1.weight": value}
    state = State(both, {"1.weight": "0.weight"}, frozenset(both), steps=0)
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    with pytest.raises(DataError, match=r"and two in the module: 0\.weight and 1\.weight"):
        load_state(module, state)
    assert not (module[0].weight == 3).any()
    module[1].weight = module[0].weight
    load_state(module, state)
    assert (module[1].weight == 3).all()
    with pytest.raises(DataError, match=r"and two in the step: 0\.weight and 1\.weight"):
        load_state(module, State(both, {}, frozenset(both), steps=0))


def test_adapters_are_merged(drops: tuple[nn.Module, odtc.Artifact], tmp_path: Path) -> None:
    module, _ = drops
    path = tmp_path / "model.onnx"
    odtc.from_torch(module, torch.randn(2, 6), path)
    artifact = odtc.compile(path, batch=4, loss="mse", lora=odtc.LoRA(rank=1))
    trainer = artifact.trainer(threads=1)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    for _ in range(3):
        trainer.step(x, np.ones((4, 1), np.float32), lr=0.1)
    fresh = trainer.to_torch(copy.deepcopy(module)).eval()
    assert not torch.equal(fresh.head.weight, module.head.weight)
    with torch.no_grad():
        expected = fresh(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(trainer.evaluate(x), expected, rtol=1e-4, atol=1e-5)


def test_a_file_of_another_exporter(drops: tuple[nn.Module, odtc.Artifact], tmp_path: Path) -> None:
    """It has no list: names say it, ties follow the module's, and counters count."""
    module, _ = drops
    path = tmp_path / "model.onnx"
    odtc.from_torch(module, torch.randn(2, 6), path)
    model = onnx.load(path)
    del model.metadata_props[:]
    kept = [t for t in model.graph.initializer if "num_batches" not in t.name]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, path)
    assert read_weight_list(model) is None
    trainer = odtc.compile(path, batch=4, loss="mse").trainer(threads=1)
    x = np.ones((4, 6), np.float32)
    trainer.step(x, np.zeros((4, 1), np.float32), lr=0.1)
    fresh = trainer.to_torch(copy.deepcopy(module))
    assert fresh.norm.num_batches_tracked == module.norm.num_batches_tracked + 1
    np.testing.assert_array_equal(fresh.head.weight.detach(), trainer.parameters()["head.weight"])
