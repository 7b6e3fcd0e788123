"""Files of `odtc.from_torch`: weights, ties and modes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import odtc
from odtc.core.errors import MissingPackageError
from tests.families import FAMILIES, make
from tests.torch_export.files import operators, values_of, written


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_in_its_file_as_it_is(name: str, tmp_path: Path) -> None:
    """Names, values, ties, and what is trained; and the module is as it was."""
    module = make(name, without_dropout=False)
    next(module.children()).eval()
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    drawn = torch.random.get_rng_state()
    example = FAMILIES[name].inputs(2)
    torch.random.set_rng_state(drawn)
    model, weights = written(module, example, tmp_path)

    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert [part.training for part in module.modules()] == modes
    assert same(module.state_dict(), before)
    assert all("forward" not in vars(part) for part in module.modules())

    found = values_of(model)
    assert {*weights.initializers, *weights.ties} == before.keys()
    for key, tensor in before.items():
        np.testing.assert_array_equal(found[weights.ties.get(key, key)], tensor.numpy(), key)
    assert list(weights.parameters) == [key for key, _ in module.named_parameters()]
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        assert (dims[0].dim_param, dims[0].denotation) == ("batch", "DATA_BATCH")
        assert all(dim.dim_value for dim in list(dims)[1:])


def test_equal_tensors_stay_two_and_a_shared_one_is_one(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.norm2(self.first(self.norm1(x))))

    model, weights = written(Tied(), torch.randn(2, 4), tmp_path)
    assert weights.ties == {"second.weight": "first.weight"}
    assert values_of(model).keys() == {*weights.parameters}
    assert {"norm1.weight", "norm2.weight", "norm1.bias", "norm2.bias"} < {*weights.parameters}


class Kinds(nn.Module):
    """One weight of each kind, and some that the forward does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.fixed = nn.Parameter(torch.ones(4), requires_grad=False)
        self.unread = nn.Parameter(torch.arange(3.0))
        self.register_buffer("mean", torch.full((4,), 0.5))
        self.register_buffer("order", torch.tensor([3, 2, 1, 0]))
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean)[:, self.order] * self.scale * self.fixed + self.table


def test_each_kind_is_told_apart(tmp_path: Path) -> None:
    model, weights = written(Kinds(), torch.randn(2, 4), tmp_path)
    assert weights.parameters == ("scale", "unread")
    assert weights.buffers == ("fixed", "mean", "order")
    assert weights.frozen == ("fixed",)
    found = values_of(model)
    np.testing.assert_array_equal(found["unread"], [0, 1, 2])
    assert found["scale"].shape == ()
    assert found["order"].dtype == np.int64


def test_frozen_parameters_are_told(tmp_path: Path) -> None:
    exported = odtc.from_torch(Kinds(), torch.randn(2, 4), tmp_path / "m.onnx")
    assert "1 parameter is frozen, and not trained" in exported.notes


def test_a_part_in_eval_stays_as_it_is(tmp_path: Path) -> None:
    """Its batch normalisation is two constants for the optimizer, its dropout is nothing."""
    module = make("mlp", without_dropout=False)
    module[1].running_mean.uniform_(-1, 1)
    module[1].eval(), module[3].eval()
    model, weights = written(module, torch.randn(2, 8), tmp_path)
    assert "BatchNormalization" not in operators(model)
    assert operators(model).count("Dropout") == 1
    assert {"1.weight", "1.bias"} < {*weights.parameters}
    assert {"1.running_mean", "1.running_var"} < {*weights.buffers}


def test_a_module_in_eval_is_exported_as_it_trains(tmp_path: Path) -> None:
    module = make("mlp", without_dropout=False).eval()
    exported = odtc.from_torch(module, torch.randn(1, 8), tmp_path / "model.onnx")
    assert exported.notes == ("the module was in eval(): it is exported as it is in train()",)
    assert {"BatchNormalization", "Dropout"} < {*operators(onnx.load(exported.path))}
    assert not any(part.training for part in module.modules())


def test_torch_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("odtc.from_pytorch.find_spec", lambda name: None)
    said = r"(?s)PyTorch is not installed.*pip install torch"
    with pytest.raises(MissingPackageError, match=said):
        odtc.from_torch(nn.Linear(3, 2), torch.randn(2, 3), tmp_path / "model.onnx")
