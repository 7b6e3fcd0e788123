"""The engines that are compared: odtc and its peers, each made from a case and a private folder.

A peer is imported where it is made: one that is not installed, or cannot train a model, says why in
an exception, and the comparison goes on without it.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx

import odtc
from benchmarks.step_time.cases import StepCase

OURS = "odtc"
COMPILERS = ("c++", "g++", "clang++")


class TimedEngine(Protocol):
    """Something that trains."""

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        ...


Make = Callable[[StepCase, Path], TimedEngine]


class OdtcEngine:
    """odtc, compiled for this machine; once for a folder, whatever the number of threads."""

    def __init__(self, case: StepCase, folder: Path) -> None:
        artifact = folder / "step.odtc"
        if not artifact.exists():
            file = folder / "model.onnx"
            onnx.save(case.model, file)
            odtc.compile(
                file,
                batch=case.batch,
                loss=case.loss,
                dropout=False,
                freeze=case.frozen,
                freeze_batch_norm=bool(case.frozen),
            ).save(artifact)
        self._trainer = odtc.load(artifact).trainer(threads=case.threads)
        self._lr = case.lr

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        return self._trainer.step(x, y, self._lr)


class GraphEngine:
    """PyTorch, eager, on an ONNX file that comes from nowhere else."""

    def __init__(self, case: StepCase) -> None:
        from benchmarks.reference.pytorch import TorchTrainer

        self._trainer = TorchTrainer(case.model, lr=case.lr, threads=case.threads)

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        (image,) = x.values()
        return self._trainer.step(image, y)


def torch_engine(case: StepCase, _: Path) -> TimedEngine:
    """PyTorch, eager: the module that was exported, or an interpreter of the ONNX file."""
    return GraphEngine(case) if case.module is None else _module_trainer(case, compiled=False)


def compiled_engine(case: StepCase, _: Path) -> TimedEngine:
    """PyTorch's module, by TorchInductor."""
    if not any(map(shutil.which, COMPILERS)):
        raise RuntimeError(f"torch.compile needs a C++ compiler: {' or '.join(COMPILERS)}")
    return _module_trainer(case, compiled=True)


def _module_trainer(case: StepCase, *, compiled: bool) -> TimedEngine:
    import torch

    from odtc.comparison.peers.torch_module import ModuleTrainer

    if case.module is None:
        raise RuntimeError("the model is an ONNX file that comes from no PyTorch module")
    torch.set_num_threads(case.threads)
    return ModuleTrainer(case.module, case.loss, lr=case.lr, compiled=compiled)


def ort_engine(case: StepCase, folder: Path) -> TimedEngine:
    """onnxruntime-training's on-device API."""
    from odtc.comparison.peers.onnxruntime_training import ort_trainer

    workdir = folder / f"ort-{case.threads}"
    return ort_trainer(case.model, case.batch, workdir, lr=case.lr, threads=case.threads)


def mnn_engine(case: StepCase, folder: Path) -> TimedEngine:
    """MNN, from its Python wheel."""
    from odtc.comparison.peers.mnn_training import MnnTrainer

    _require_classifier(case)
    return MnnTrainer(case.model, folder, lr=case.lr, threads=case.threads)


def tvm_engine(case: StepCase, folder: Path) -> TimedEngine:
    """TVM's own `relax.training`, with its default kernels and schedules."""
    from odtc.comparison.peers.tvm_training import TvmTrainer, build

    _require_classifier(case)
    build(case.model, case.batch, folder, case.lr)
    return TvmTrainer(case.batch, folder, threads=case.threads)


def _require_classifier(case: StepCase) -> None:
    if case.module is None or case.loss != "cross-entropy" or len(case.x) != 1:
        raise RuntimeError("only PyTorch's exports of one input and one label a sample are tried")


ENGINES: dict[str, Make] = {
    OURS: OdtcEngine,
    "PyTorch": torch_engine,
    "onnxruntime-training": ort_engine,
    "torch.compile": compiled_engine,
    "MNN": mnn_engine,
    "TVM": tvm_engine,
}
# What is compared where no engines are named; the others are slow to make.
USUAL = (OURS, "PyTorch", "onnxruntime-training")
