"""The peers in the emulator: their own wheels for 64-bit ARM, in Python.

onnxruntime-training is not among them: it has no wheel for Linux on ARM.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import Counted, count
from benchmarks.arm.root import PYTHON, SITE
from benchmarks.step_time.cases import StepCase
from odtc.comparison.peers import mnn_steps
from odtc.comparison.peers.mnn_training import converted
from odtc.comparison.peers.quiet import written_to
from odtc.comparison.peers.torch_module import LOSSES

_GUESTS = Path(__file__).parent / "guests"


class _Loss(torch.nn.Module):
    """A module and its loss."""

    def __init__(self, module: torch.nn.Module, loss: str) -> None:
        super().__init__()
        self.module = module
        self.loss = loss

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return LOSSES[self.loss](self.module(*batch[:-1]), batch[-1])


def counted_pytorch(
    case: StepCase, cores: Sequence[Core], steps: int, folder: Path, root: Path, mode: str
) -> list[Counted]:
    """PyTorch's own operators, one by one: the module is traced here, and run there.

    Args:
        case: a module and its batch.
        cores: whose caches are simulated, in one run.
        steps: how many are counted.
        folder: an empty one.
        root: with Python and the wheels.
        mode: `onednn`, PyTorch as it is, or `native`, without oneDNN.

    Raises:
        BuildError: the emulator is not installed, or the step failed.
        ValueError: the model is no module.
    """
    if case.module is None:
        raise ValueError(f"{case.name} is an ONNX file")
    batch = [torch.from_numpy(np.ascontiguousarray(a)) for a in (*case.x.values(), case.y)]
    whole = _Loss(copy.deepcopy(case.module), case.loss)
    traced: Any = torch.jit.trace(whole, tuple(batch), check_trace=False)
    traced.save(str(folder / "step.pt"))
    _write_batch(case, folder)
    return _guest(["pytorch", str(steps), repr(case.lr), mode], cores, folder, root)


def counted_mnn(
    case: StepCase, cores: Sequence[Core], steps: int, folder: Path, root: Path
) -> list[Counted]:
    """MNN: the model is converted here.

    Args and errors are those of PyTorch.

    Raises:
        ValueError: MNN cannot train the model.
    """
    with written_to(folder / "mnn.log", 1, 2):
        _, pools = converted(case.model, folder)
    _write_batch(case, folder)
    return _guest(["mnn", str(steps), repr(case.lr), str(int(pools))], cores, folder, root)


def _write_batch(case: StepCase, folder: Path) -> None:
    arrays = {f"input{n}": array for n, array in enumerate(case.x.values())}
    np.savez(folder / "batch.npz", **arrays, label=case.y)  # pyright: ignore[reportArgumentType]


def _guest(words: list[str], cores: Sequence[Core], folder: Path, root: Path) -> list[Counted]:
    name, *rest = words
    folders = [root / SITE, _GUESTS, Path(mnn_steps.__file__).parent]
    variables = {"PYTHONPATH": ":".join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    command = [str(root) + PYTHON, "-S", str(_GUESTS / f"{name}.py"), *rest]
    return count(command, cores, folder, root, variables)
