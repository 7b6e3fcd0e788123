"""The engines: odtc and its peers, each as one function that prepares and one that starts.

Both run in processes of their own. What prepares may compile and convert; it leaves files in the
engine's folder. What starts imports all that a step needs and returns a function that loads, so
that a process can be looked at in between; that one returns the step: inputs and labels to the loss
before the update, by plain SGD.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from odtc.comparison.case import Arrays, Case, Load, Step
from odtc.core.errors import UnsupportedError

if TYPE_CHECKING:
    import onnx

Known = Mapping[str, int]

OURS = "odtc"
ARTIFACT = "step.odtc"
_CLASSES = "cross-entropy"


@dataclass(frozen=True)
class Engine:
    """A library that trains.

    Attributes:
        prepare: compiles or converts, from the case and the engine's folder; returns what is known
            of it then, by fields of a row.
        start: imports; returns a function that loads.
    """

    prepare: Callable[[Case, Path], Known]
    start: Callable[[Case, Path], Load]


def _nothing(case: Case, folder: Path) -> Known:
    """Prepares nothing: it needs no files of its own."""
    return {}


def _start_odtc(case: Case, folder: Path) -> Load:
    # All that the trainer needs, so that its load is timed alone.
    import odtc.runtime_rpc.trainer  # noqa: F401
    from odtc.artifact import load as open_artifact
    from odtc.comparison.ours import threads_of

    def load() -> Step:
        trainer = open_artifact(folder / ARTIFACT).trainer(threads=threads_of(case))
        return lambda x, y: trainer.step(x, y, case.lr)

    return load


def _prepare_odtc(case: Case, folder: Path) -> Known:
    from odtc.comparison.ours import compile_step

    return {"planned": compile_step(case, folder / ARTIFACT)}


def _prepare_onnxruntime(case: Case, folder: Path) -> Known:
    import onnx

    from odtc.comparison.peers.onnxruntime_training import LOSSES, write_artifacts

    loss, model = _require_loss(case, LOSSES), onnx.load(case.model)
    _require_leading_samples(case, model)
    write_artifacts(model, case.batch, folder, loss)
    return {}


def _require_leading_samples(case: Case, model: "onnx.ModelProto") -> None:
    """Checks that samples lie along the first dimension of each input, where the peer gets them.

    Raises:
        UnsupportedError: they do not.
    """
    from odtc.frontend.feeds import InputOptions, feeds_of, hypotheses

    axes = next(hypotheses(feeds_of(model), InputOptions(case.batch, dict(case.shape))))
    other = next((name for name, axis in axes.items() if axis != 0), None)
    if other is not None:
        raise UnsupportedError(
            "this peer is only asked for models whose inputs have the batch first",
            where=f"input {other}",
        )


def _start_onnxruntime(case: Case, folder: Path) -> Load:
    from odtc.comparison.peers.onnxruntime_training import OrtTrainer, import_training

    import_training()

    def load() -> Step:
        trainer = OrtTrainer(folder, lr=case.lr, threads=case.threads)
        return lambda x, y: trainer.step(x, _only(y))

    return load


def _start_torch(case: Case, folder: Path, *, compiled: bool = False) -> Load:
    from odtc.comparison.peers.torch_source import start

    return start(case, compiled=compiled)


def _start_compiled_torch(case: Case, folder: Path) -> Load:
    return _start_torch(case, folder, compiled=True)


def _prepare_mnn(case: Case, _: Path) -> Known:
    """Checks the case: it can be fed one input of floats, and nothing else."""
    import onnx

    graph = onnx.load(case.model).graph
    own = {tensor.name for tensor in graph.initializer}
    name_of = onnx.TensorProto.DataType.Name
    fed = [each for each in graph.input if each.name not in own]
    types = [name_of(each.type.tensor_type.elem_type) for each in fed]
    if types != ["FLOAT"]:
        raise UnsupportedError(
            f"this peer is only asked for models of one input, of floats, not of {len(types)}: "
            f"{', '.join(types)}"
        )
    return {}


def _start_mnn(case: Case, folder: Path) -> Load:
    import importlib

    import onnx

    from odtc.comparison.peers.mnn_training import MnnTrainer
    from odtc.comparison.peers.onnx_edits import specialized

    _require_loss(case)
    for name in ("MNN.expr", "MNN.nn", "MNN.optim"):
        importlib.import_module(name)

    def load() -> Step:
        model = specialized(onnx.load(case.model), case.batch, dict(case.shape))
        trainer = MnnTrainer(model, folder, lr=case.lr, threads=case.threads)
        return lambda x, y: trainer.step(x, _only(y))

    return load


def _prepare_tvm(case: Case, folder: Path) -> Known:
    import onnx

    from odtc.comparison.peers.onnx_edits import specialized
    from odtc.comparison.peers.tvm_training import build

    _require_loss(case)
    model = specialized(onnx.load(case.model), case.batch, dict(case.shape))
    build(model, case.batch, folder, case.lr)
    return {}


def _start_tvm(case: Case, folder: Path) -> Load:
    from odtc.comparison.peers.tvm_training import TvmTrainer

    def load() -> Step:
        trainer = TvmTrainer(case.batch, folder, threads=case.threads)
        return lambda x, y: trainer.step(x, _only(y))

    return load


def _only(labels: Arrays) -> np.ndarray:
    (label,) = labels.values()
    return label


def _require_loss(case: Case, known: Iterable[str] = (_CLASSES,)) -> str:
    """The only loss of a case, if a peer supports it."""
    loss, known = " ".join(case.loss), list(known)
    if loss not in known:
        raise UnsupportedError(f"this peer is only asked for {', '.join(known)}, not {loss}")
    return loss


ENGINES = {
    OURS: Engine(_prepare_odtc, _start_odtc),
    "onnxruntime-training": Engine(_prepare_onnxruntime, _start_onnxruntime),
    "pytorch": Engine(_nothing, _start_torch),
    "torch.compile": Engine(_nothing, _start_compiled_torch),
    "mnn": Engine(_prepare_mnn, _start_mnn),
    "tvm": Engine(_prepare_tvm, _start_tvm),
}
