"""Three steps of a PyTorch module and of its export, compared parameter by parameter."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from onnx import numpy_helper

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import TorchModel, batches, make, norm_parameters
from benchmarks.reference.initializers import InitializerMatch, match_initializers
from odtc.comparison.peers.torch_module import ModuleTrainer
from odtc.driver.layouts import DEFAULT
from odtc.frontend.file.onnx_file import load_model
from odtc.runtime_rpc.trainer import Trainer

Arrays = Mapping[str, np.ndarray]

STEPS = 3
MOMENTUM = 0.9
BOUND = 1e-4
# A parameter moves by a small part of itself, so how far it moved is compared too: with PyTorch in
# double precision, because a ReLU or a maximum that rounds to its other side changes a gradient at
# full size. Where PyTorch's own float32 is off by more, odtc may be so by a few times that.
MOVED_BOUND = 1e-2
TIMES_PYTORCH = 4.0
# Where the true gradient is zero, as of a bias in front of a batch normalisation, rounding moves.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Pair:
    """An export at work beside the module that it came from.

    Attributes:
        trainer: of the export.
        reference: of the module.
        double: of the module, in double precision.
        matches: what each of the export's initializers is.
        first: their values before training.
    """

    trainer: Trainer
    reference: ModuleTrainer
    double: ModuleTrainer
    matches: dict[str, InitializerMatch]
    first: dict[str, np.ndarray]


def initializers(path: Path) -> dict[str, np.ndarray]:
    """Values of an ONNX file by name, merged parameters apart."""
    return {t.name: numpy_helper.to_array(t) for t in load_model(path).graph.initializer}


def pair(
    model: TorchModel, exporter: str, folder: Path, target: str, layout: str = DEFAULT
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
    reference, double = (
        ModuleTrainer(module, model.loss, lr=model.lr, momentum=MOMENTUM, dtype=dtype)
        for dtype in (torch.float32, torch.float64)
    )
    artifact = odtc.compile(
        path,
        target,
        loss=model.loss,
        optimizer=odtc.SGD(momentum=MOMENTUM),
        train=f"{model.trained}*",
        freeze=norm_parameters(module) if model.frozen_norms else (),
        freeze_batch_norm=model.frozen_norms,
        layout=layout,
    )
    trainer = artifact.trainer(threads=2 if target == "host-cpu" else None)
    first = trainer.parameters()
    arrays = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    matches = match_initializers(first, arrays)
    for name, match in matches.items():
        np.testing.assert_array_equal(first[name], match.read(arrays), name)
    return Pair(trainer, reference, double, matches, first)


def relative(value: np.ndarray, reference: np.ndarray) -> float:
    """Norm of the difference over that of the reference."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(value.astype(np.float64) - reference)) / max(norm, 1e-30)


def check_parity(
    model: TorchModel,
    exporter: str,
    folder: Path,
    target: str = "host-cpu",
    layout: str = DEFAULT,
) -> None:
    """Trains both for three steps; the loss and every tensor agree.

    Every parameter of the module that got a gradient is one of the export's, so that none was
    folded away.
    """
    both = pair(model, exporter, folder, target, layout)
    for x, y in islice(batches(model), STEPS):
        expected = both.reference.step(x, y)
        both.double.step(x, y)
        loss = both.trainer.step(x, y, lr=model.lr)
        assert abs(loss - expected) <= BOUND * abs(expected), (loss, expected)
    check_covered(both)
    single, double = (
        {name: match.read(state) for name, match in both.matches.items()}
        for state in (both.reference.state(), both.double.state())
    )
    check_tensors(both.first, both.trainer.parameters(), single, double)


def check_tensors(first: Arrays, found: Arrays, single: Arrays, double: Arrays) -> None:
    """Checks tensors after training, and how far they moved.

    Args:
        first: the values before training, by name.
        found: odtc's values.
        single: PyTorch's in float32.
        double: PyTorch's in float64.
    """
    assert found.keys() == single.keys()
    for name, value in found.items():
        error = relative(value, single[name])
        assert error <= BOUND, f"{name}: off by {error:.1e} of its norm"
    moved = {
        name: _moved_errors(first[name], value, single[name], double[name])
        for name, value in found.items()
    }
    typical = float(np.median([pytorch for _, pytorch in moved.values()]))
    for name, (error, pytorch) in moved.items():
        limit = max(MOVED_BOUND, TIMES_PYTORCH * max(pytorch, typical))
        assert error <= limit, f"{name}: off by {error:.1e} of its way, PyTorch by {pytorch:.1e}"


def check_covered(both: Pair) -> None:
    """Checks that the export has every parameter of the module that got a gradient."""
    state = both.reference.state()
    matched = {state[match.state].ctypes.data for match in both.matches.values()}
    for name in both.reference.trained():
        assert state[name].ctypes.data in matched, f"{name} is not in the export"


def _moved_errors(
    first: np.ndarray, found: np.ndarray, single: np.ndarray, double: np.ndarray
) -> tuple[float, float]:
    """How far odtc, and PyTorch in float32, are off, as parts of the way in double precision."""
    way = float(np.linalg.norm(double - first))
    rounding = ROUNDING * float(np.linalg.norm(first))
    errors = (float(np.linalg.norm(value - double)) for value in (found, single))
    odtc_error, pytorch_error = (max(error - rounding, 0.0) / max(way, 1e-30) for error in errors)
    return odtc_error, pytorch_error
