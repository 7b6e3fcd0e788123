"""Imports and start of each engine, in a process that is measured.

Everything is imported before the first look at the process, nothing after it. Each loads what
another process wrote, as on a device: neither a compiler nor a generator of graphs ran before.
"""

import gc
from collections.abc import Callable
from pathlib import Path

from benchmarks.memory.cases import MODEL, StoredCase, batch_of
from odtc.comparison.measures.resident import Sample, measured

STEPS = 3
_GRAPHS = "onnxruntime"


def odtc_sample(case: StoredCase, folder: Path) -> Sample:
    """odtc, from an artifact."""
    import odtc
    import odtc.runtime_rpc.trainer
    from benchmarks.memory.plans import ARTIFACT

    x, y = batch_of(folder)

    def make() -> Callable[[], float]:
        trainer = odtc.load(folder / ARTIFACT).trainer(threads=case.threads)
        return lambda: trainer.step(x, y, case.lr)

    return measured(make, STEPS)


def write_ort(case: StoredCase, folder: Path) -> None:
    """onnxruntime-training's graphs and checkpoint."""
    import onnx

    from odtc.comparison.peers.onnxruntime_training import write_artifacts

    write_artifacts(onnx.load(folder / MODEL), case.batch, folder / _GRAPHS)


def ort_sample(case: StoredCase, folder: Path) -> Sample:
    """onnxruntime-training, from its graphs and checkpoint."""
    from odtc.comparison.peers.onnxruntime_training import OrtTrainer, import_training

    import_training()
    x, y = batch_of(folder)

    def make() -> Callable[[], float]:
        trainer = OrtTrainer(folder / _GRAPHS, lr=case.lr, threads=case.threads)
        return lambda: trainer.step(x, y)

    return measured(make, STEPS)


def torch_sample(case: StoredCase, folder: Path) -> Sample:
    """PyTorch, eager: the module that was exported, or an interpreter of the ONNX file."""
    import torch

    torch.set_num_threads(case.threads)
    return _module_sample(case, folder) if case.is_export else _graph_sample(case, folder)


def _module_sample(case: StoredCase, folder: Path) -> Sample:
    from benchmarks.models.pytorch.spec import make as make_module
    from benchmarks.models.pytorch.table import FULL
    from odtc.comparison.peers.torch_module import ModuleTrainer

    x, y = batch_of(folder)
    # Some families are imported where a module is made; this one goes at once.
    make_module(FULL[case.name])

    def make() -> Callable[[], float]:
        # It copies the module, which then goes.
        trainer = ModuleTrainer(make_module(FULL[case.name]), case.loss, lr=case.lr)
        gc.collect()
        return lambda: trainer.step(x, y)

    return measured(make, STEPS)


def _graph_sample(case: StoredCase, folder: Path) -> Sample:
    import onnx

    # Optimizers import it where they are made.
    import torch._dynamo  # noqa: F401

    from benchmarks.reference.pytorch import TorchTrainer

    x, y = batch_of(folder)
    (image,) = x.values()

    def make() -> Callable[[], float]:
        # It copies the weights; the model then goes.
        trainer = TorchTrainer(onnx.load(folder / MODEL), lr=case.lr)
        gc.collect()
        return lambda: trainer.step(image, y)

    return measured(make, STEPS)
