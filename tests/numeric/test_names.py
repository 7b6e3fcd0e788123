"""Weights may have the names that the step has for arguments of its own."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.core.errors import ModelError
from tests.fuzz.corpus import model as model_of
from tests.fuzz.corpus import node, value

NAMES = ("lr", "step", "loss", "loss-scale", "gradient", "x::lr")


def _trained(path: Path, name: str, optimizer: str) -> list[np.ndarray]:
    """The parameters after two steps of a model whose bias is so called."""
    nodes = [node("MatMul", "x w", "h"), node("Add", f"h {name}", "y")]
    model = model_of(nodes, [value("x", ["N", 4])], {"w": (4, 3), name: (3,)})
    onnx.save(model, path)
    trainer = odtc.compile(path, batch=2, optimizer=optimizer).trainer(threads=1)
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    for _ in range(2):
        trainer.step(x, np.array([0, 2]), lr=0.1)
    return list(trainer.parameters().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_has_any_name(name: str, tmp_path: Path) -> None:
    optimizer = "sgd{momentum=0.9}"
    plain = _trained(tmp_path / "plain.onnx", "b", optimizer)
    named = _trained(tmp_path / "named.onnx", name, optimizer)
    assert all(np.array_equal(*pair) for pair in zip(plain, named, strict=True))


def test_a_weight_is_not_named_as_a_state(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="state of another"):
        _trained(tmp_path / "model.onnx", "momentum/w", "sgd{momentum=0.9}")
    _trained(tmp_path / "model.onnx", "momentum/w", "sgd")
