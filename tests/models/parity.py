"""Three steps of a PyTorch module and of its export, compared parameter by parameter."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import TorchModel, batches, make
from benchmarks.reference.initializers import Match, match_initializers
from benchmarks.reference.torch_module import ModuleTrainer
from odtc.runtime_rpc.trainer import Trainer

STEPS = 3
MOMENTUM = 0.9
BOUND = 1e-4
# A parameter moves by a part of itself: what moved is compared too. Where the true gradient is
# zero, as of a bias in front of a batch normalisation, what moves is rounding.
MOVED_BOUND = 1e-2
ROUNDING = 1e-6


@dataclass(frozen=True)
class Pair:
    """An export at work beside the module that it came from.

    Attributes:
        trainer: of the export.
        reference: of the module.
        matches: what each of the export's initializers is.
        first: their values before training.
    """

    trainer: Trainer
    reference: ModuleTrainer
    matches: dict[str, Match]
    first: dict[str, np.ndarray]


def initializers(path: Path) -> dict[str, np.ndarray]:
    """Values of an ONNX file by name."""
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def pair(
    model: TorchModel, exporter: str, folder: Path, dtype: torch.dtype = torch.float32
) -> Pair:
    """Exports and compiles a model, and makes a reference that starts with the same values."""
    module = make(model)
    inputs, _ = next(batches(model))
    path = folder / "model.onnx"
    export(module, inputs, path, exporter)
    # The TorchScript exporter runs the module, and writes running statistics that have moved.
    values, state = initializers(path), module.state_dict()
    for name in state.keys() & values.keys():
        if "running_" in name:
            state[name].copy_(torch.from_numpy(values[name].copy()))
    reference = ModuleTrainer(module, model.loss, lr=model.lr, momentum=MOMENTUM, dtype=dtype)
    params = [name for name in values if name.startswith(model.trained)] if model.trained else "*"
    artifact = odtc.compile(
        path, loss=model.loss, optimizer=odtc.SGD(momentum=MOMENTUM), params=params
    )
    trainer = artifact.trainer(threads=2)
    first = trainer.parameters()
    arrays = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    matches = match_initializers(first, arrays)
    for name, match in matches.items():
        np.testing.assert_array_equal(first[name], match.read(arrays), name)
    return Pair(trainer, reference, matches, first)


def relative(value: np.ndarray, reference: np.ndarray) -> float:
    """Norm of the difference over that of the reference."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(value.astype(np.float64) - reference)) / max(norm, 1e-30)


def check_parity(model: TorchModel, exporter: str, folder: Path, bound: float = BOUND) -> None:
    """Trains both for three steps; the loss and every tensor agree.

    Every tensor of the module that a step changed is one of the export's, so that none was folded
    away.
    """
    both = pair(model, exporter, folder)
    for x, y in islice(batches(model), STEPS):
        expected = both.reference.step(x, y)
        loss = both.trainer.step(x, y, lr=model.lr)
        assert abs(loss - expected) <= bound * abs(expected), (loss, expected)
    state, found = both.reference.state(), both.trainer.parameters()
    matched = {state[match.state].ctypes.data for match in both.matches.values()}
    for name in both.reference.trained():
        assert state[name].ctypes.data in matched, f"{name} is not in the export"
    for name, match in both.matches.items():
        _check_tensor(name, both.first[name], found[name], match.read(state), bound)


def _check_tensor(
    name: str, first: np.ndarray, found: np.ndarray, expected: np.ndarray, bound: float
) -> None:
    error = relative(found, expected)
    assert error <= bound, f"{name}: {error:.1e} of its norm"
    size, moved = np.linalg.norm(first), np.linalg.norm(expected - first)
    apart = np.linalg.norm(found - expected)
    assert apart <= MOVED_BOUND * moved + ROUNDING * size, (
        f"{name}: {apart / moved:.1e} of its step"
    )
