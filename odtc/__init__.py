"""odtc compiles an ONNX model into a training step for phones.

    artifact = odtc.compile("model.onnx", target="host-cpu", batch=4)
    trainer = artifact.trainer()
    loss = trainer.step(x, y, lr=0.01)

Names are imported when they are first used: `import odtc` imports no TVM.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odtc import schedules
    from odtc.artifact import Artifact, load
    from odtc.compilation import compile_model as compile
    from odtc.core.errors import OdtcError
    from odtc.core.specs import TensorSpec
    from odtc.frontend.losses.classification import NLL, CrossEntropy
    from odtc.frontend.losses.elementwise import L1, MSE, BCEWithLogits, Huber, KLDiv, SmoothL1
    from odtc.frontend.losses.given import InModel, LossGraph
    from odtc.frontend.optimizers import SGD
    from odtc.runtime_rpc.session import connect
    from odtc.runtime_rpc.trainer import Trainer

__version__ = "0.1.0"

__all__ = [
    "L1",
    "MSE",
    "NLL",
    "SGD",
    "Artifact",
    "BCEWithLogits",
    "CrossEntropy",
    "Huber",
    "InModel",
    "KLDiv",
    "LossGraph",
    "OdtcError",
    "SmoothL1",
    "TensorSpec",
    "Trainer",
    "compile",
    "connect",
    "load",
    "schedules",
]

_HOME = {
    "SGD": ("odtc.frontend.optimizers", "SGD"),
    **{name: ("odtc.frontend.losses.classification", name) for name in ("CrossEntropy", "NLL")},
    **{
        name: ("odtc.frontend.losses.elementwise", name)
        for name in ("BCEWithLogits", "Huber", "KLDiv", "L1", "MSE", "SmoothL1")
    },
    **{name: ("odtc.frontend.losses.given", name) for name in ("InModel", "LossGraph")},
    "Artifact": ("odtc.artifact", "Artifact"),
    "OdtcError": ("odtc.core.errors", "OdtcError"),
    "TensorSpec": ("odtc.core.specs", "TensorSpec"),
    "Trainer": ("odtc.runtime_rpc.trainer", "Trainer"),
    "compile": ("odtc.compilation", "compile_model"),
    "connect": ("odtc.runtime_rpc.session", "connect"),
    "load": ("odtc.artifact", "load"),
}


def __getattr__(name: str) -> Any:
    if name == "schedules":
        return import_module("odtc.schedules")
    if name not in _HOME:
        raise AttributeError(f"module 'odtc' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(import_module(module), attribute)
