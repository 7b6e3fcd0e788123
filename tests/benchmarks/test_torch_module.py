"""The reference that trains a PyTorch module, and the names it finds for an export's weights."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.reference.initializers import InitializerMatch, match_initializers
from odtc.comparison.peers.torch_module import ModuleTrainer

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))


def test_initializers_are_known_by_name_then_by_value() -> None:
    state = {"fc.weight": A, "head.weight": B}
    # A name wins over a value: after training the values differ, the names do not.
    found = match_initializers({"fc.weight": B, "onnx::MatMul_12": B.T}, state)
    assert found == {
        "fc.weight": InitializerMatch("fc.weight"),
        "onnx::MatMul_12": InitializerMatch("head.weight", transposed=True),
    }
    np.testing.assert_array_equal(found["onnx::MatMul_12"].read(state), B.T)


@pytest.mark.parametrize(
    ("initializers", "state", "message"),
    [
        ({"val_1": A + 1}, {"w": A}, "is not a tensor of the module"),
        ({"val_1": A}, {"v": A.copy(), "w": A}, "may be any of v, w"),
        ({"w": A, "val_1": A.T}, {"w": A}, "val_1 and w are both w"),
        ({"v": A, "w": A}, {"v": A, "w": A}, "are both"),
    ],
    ids=["none", "several", "transposed-copy", "tied"],
)
def test_what_is_not_clear_is_refused(initializers, state, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        match_initializers(initializers, state)


def test_running_variances_are_those_of_onnx() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(3, momentum=0.2)
    norm.running_var.copy_(torch.tensor([0.5, 1.0, 2.0]))
    trainer = ModuleTrainer(nn.Sequential(norm, nn.Flatten()), "cross-entropy", lr=0.0)
    expected = np.array([0.5, 1.0, 2.0])
    for _ in range(4):
        x = RNG.standard_normal((5, 3, 2)).astype(np.float32)
        trainer.step({"x": x}, np.zeros(5, np.int64))
        expected = 0.8 * expected + 0.2 * x.var((0, 2))
    np.testing.assert_allclose(trainer.state()["0.running_var"], expected, rtol=1e-6)


def test_the_module_is_copied_and_what_is_frozen_stays() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    module[0].requires_grad_(False)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    trainer = ModuleTrainer(module, "cross-entropy", lr=1.0, dtype=torch.float64)
    trainer.step({"x": np.ones((2, 4), np.float32)}, np.zeros(2, np.int64))
    after = trainer.state()
    assert trainer.trained() == ["1.weight", "1.bias"]
    assert all(torch.equal(value, before[k]) for k, value in module.state_dict().items())
    np.testing.assert_array_equal(after["0.weight"], before["0.weight"].double())
    assert np.abs(after["1.bias"] - before["1.bias"].numpy()).max() > 0.1
