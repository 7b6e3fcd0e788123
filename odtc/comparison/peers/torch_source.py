"""The PyTorch module that is the model: the user's own, with the weights of the ONNX file.

No converter from ONNX to PyTorch takes what odtc takes, and an interpreter of the graph would be no
fair peer: so PyTorch is asked only where the user names what makes the module. Exporters call an
initializer as the module's `state_dict` does: tensors of these names and shapes get its values. The
losses show whether it is the same model.
"""

import gc
import shutil

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from odtc.comparison.case import Arrays, Case, Load, Step
from odtc.comparison.peers.torch_module import LOSSES, ModuleTrainer
from odtc.core.errors import UnsupportedError
from odtc.torch_export.source import callable_of

_COMPILERS = ("c++", "g++", "clang++")


def start(case: Case, *, compiled: bool) -> Load:
    """Imports the maker of the module; returns a function that loads it.

    Raises:
        UnsupportedError: there is no module, or PyTorch's loss is not known.
        UsageError: nothing can be called by the module's name.
    """
    if not case.module:
        raise UnsupportedError("pytorch needs a module: --module package:callable")
    loss = " ".join(case.loss)
    if loss not in LOSSES:
        raise UnsupportedError(f"pytorch is only asked for {', '.join(LOSSES)}")
    if compiled and not any(map(shutil.which, _COMPILERS)):
        raise UnsupportedError(f"torch.compile needs a C++ compiler: {' or '.join(_COMPILERS)}")
    torch.set_num_threads(case.threads)
    make = callable_of(case.module)
    # Families and optimizers are imported where one is made; this one goes at once.
    ModuleTrainer(make(), loss, lr=case.lr)

    def load() -> Step:
        module = without_dropout(make().train())
        take_weights(module, case.model)
        trainer = ModuleTrainer(module, loss, lr=case.lr, compiled=compiled)
        del module
        gc.collect()
        return lambda x, y: trainer.step(x, _label(y))

    return load


def _label(labels: Arrays) -> np.ndarray:
    """The only label; PyTorch takes 64-bit class numbers only."""
    (label,) = labels.values()
    return label.astype(np.int64) if np.issubdtype(label.dtype, np.integer) else label


def without_dropout(module: torch.nn.Module) -> torch.nn.Module:
    """The same module with its dropouts turned off."""
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
    return module


def take_weights(module: torch.nn.Module, model: str) -> None:
    """Loads into a module the initializers that match its tensors by name and shape."""
    state = module.state_dict()
    with torch.no_grad():
        for tensor in onnx.load(model).graph.initializer:
            own = state.get(tensor.name)
            if own is not None and tuple(own.shape) == tuple(tensor.dims):
                own.copy_(torch.from_numpy(numpy_helper.to_array(tensor).copy()))
