"""Trains an ONNX model with TVM's own `relax.training`, and its pipeline for CPUs.

None of odtc's kernels, schedules and gradient rules take part. The rules of odtc replace TVM's in a
process for good, so a process of its own builds the library: this module, as a program. odtc's
reader only folds the shapes of the model and tells its weights from its constants.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import tvm
from tvm import relax

from odtc.backends.objects.library import export_library
from odtc.backends.targets import parse_target
from odtc.comparison.peers.onnx_edits import without_dropout
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.runtime_rpc.sessions.local import LocalSession

_BACKBONE = "backbone"
_SOURCE, _LIBRARY = "tvm.onnx", "tvm.so"
_PROGRAM = "odtc.comparison.peers.tvm_training"


class TvmTrainer:
    """Trains all float weights of a classifier with SGD, without momentum.

    Args:
        batch: samples in a step.
        workdir: the folder that `build` wrote to.
        threads: of TVM, set for the whole process.
    """

    def __init__(self, batch: int, workdir: Path, *, threads: int):
        source, library = workdir / _SOURCE, workdir / _LIBRARY
        session = LocalSession()
        machine = session.load(library)
        session.use_threads(threads)
        self._gradients = machine[f"{_BACKBONE}_loss_adjoint"]
        self._optimizer = machine["optimizer"]
        weights = specialize(onnx.load(source), batch).parameters
        self._weights = [tvm.runtime.tensor(value) for value in weights.values()]
        self._state = [tvm.runtime.tensor(np.zeros((), np.int64))]

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step on the input and integer labels y [batch]; the loss before the update."""
        inputs = [tvm.runtime.tensor(array) for array in x.values()]
        labels = tvm.runtime.tensor(y.astype(np.int64))
        loss, gradients = self._gradients(*inputs, *self._weights, labels)
        updated, state = self._optimizer(self._weights, gradients, self._state)
        self._weights, self._state = list(updated), list(state)
        return float(loss.numpy())


def build(model: onnx.ModelProto, batch: int, workdir: Path, lr: float) -> None:
    """Builds the library in a process of its own, unless it is there already.

    Args:
        model: an ONNX model of one input; its output are logits [batch, classes].
        batch: samples in a step.
        workdir: an existing folder for the library.
        lr: learning rate, compiled into the library.

    Raises:
        RuntimeError: TVM cannot train the model, with the last line of what it said.
    """
    source, library = (workdir / name for name in (_SOURCE, _LIBRARY))
    if library.exists():
        return
    onnx.save(without_dropout(model), source)
    command = [sys.executable, "-m", _PROGRAM, str(source.absolute()), str(batch), str(lr)]
    done = subprocess.run(
        [*command, str(library.absolute())], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"TVM cannot train it: {lines[-1]}")


def training_module(graph: Graph, lr: float) -> tvm.IRModule:
    """Gradients and the optimizer, as `relax.training` sets them up."""
    from tvm.relax.frontend.onnx import from_onnx
    from tvm.relax.training import SetupTrainer
    from tvm.relax.training.loss import CrossEntropyLoss
    from tvm.relax.training.optimizer import SGD

    module = from_onnx(graph.to_model(), keep_params_in_input=False, sanitize_input_names=True)
    function = module["main"].with_attr("global_symbol", _BACKBONE)
    module = tvm.IRModule({_BACKBONE: function})
    module = module.with_attrs({"param_num": len(graph.parameters), "state_num": 0})
    logits = function.ret_ty
    labels = relax.TensorType([logits.shape[0]], "int64")
    return SetupTrainer(CrossEntropyLoss(), SGD(lr), [logits, labels])(module)


def _main() -> None:
    source, batch, lr, library = sys.argv[1:]
    target = parse_target("host-cpu").resolved()
    graph = specialize(onnx.load(source), int(batch))
    executable = tvm.compile(training_module(graph, float(lr)), target.to_tvm())
    export_library(executable, Path(library), target)


if __name__ == "__main__":
    _main()
