"""odtc compiles an ONNX model into a training step for phones.

    artifact = odtc.compile("model.onnx", target="host-cpu", batch=4)
    trainer = artifact.trainer()
    loss = trainer.step(x, y, lr=0.01)

Names are imported when they are first used: `import odtc` imports no TVM.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from odtc.core.version import VERSION

if TYPE_CHECKING:
    from odtc import schedules
    from odtc.against import match_weights
    from odtc.artifact import Artifact, load
    from odtc.core.errors import OdtcError
    from odtc.core.specs import TensorSpec
    from odtc.driver.entry_points import compile_model as compile
    from odtc.driver.entry_points import plan_model as plan
    from odtc.from_pytorch import from_torch
    from odtc.frontend.inputs.normalization import Normalize
    from odtc.frontend.losses.classification import NLL, CrossEntropy
    from odtc.frontend.losses.elementwise import L1, MSE, BCEWithLogits, Huber, KLDiv, SmoothL1
    from odtc.frontend.losses.given import InModel, LossGraph
    from odtc.frontend.optimizers.adam import LAMB, Adam, AdamW
    from odtc.frontend.optimizers.groups import Group
    from odtc.frontend.optimizers.scaled import Adagrad, RMSProp
    from odtc.frontend.optimizers.sgd import SGD, Lion
    from odtc.frontend.optimizers.update import LossScale, Update
    from odtc.frontend.trained.lora import LoRA
    from odtc.heads import replace_head
    from odtc.runtime_rpc.connect import connect
    from odtc.runtime_rpc.loop.callback import Callback
    from odtc.runtime_rpc.loop.history import History
    from odtc.runtime_rpc.loop.keeping import BestCheckpoint, Checkpoint
    from odtc.runtime_rpc.loop.logs import JsonLines, TensorBoard
    from odtc.runtime_rpc.loop.stopping import EarlyStopping, TimeLimit
    from odtc.runtime_rpc.loop.view.live_view import LiveView
    from odtc.runtime_rpc.trainer import Trainer

__version__ = VERSION

__all__ = [
    "L1",
    "LAMB",
    "MSE",
    "NLL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Artifact",
    "BCEWithLogits",
    "BestCheckpoint",
    "Callback",
    "Checkpoint",
    "CrossEntropy",
    "EarlyStopping",
    "Group",
    "History",
    "Huber",
    "InModel",
    "JsonLines",
    "KLDiv",
    "Lion",
    "LiveView",
    "LoRA",
    "LossGraph",
    "LossScale",
    "Normalize",
    "OdtcError",
    "RMSProp",
    "SmoothL1",
    "TensorBoard",
    "TensorSpec",
    "TimeLimit",
    "Trainer",
    "Update",
    "compile",
    "connect",
    "from_torch",
    "load",
    "match_weights",
    "plan",
    "replace_head",
    "schedules",
]

_HOME = {
    **{name: ("odtc.frontend.losses.classification", name) for name in ("CrossEntropy", "NLL")},
    **{
        name: ("odtc.frontend.losses.elementwise", name)
        for name in ("BCEWithLogits", "Huber", "KLDiv", "L1", "MSE", "SmoothL1")
    },
    **{name: ("odtc.frontend.losses.given", name) for name in ("InModel", "LossGraph")},
    "LAMB": ("odtc.frontend.optimizers.adam", "LAMB"),
    "SGD": ("odtc.frontend.optimizers.sgd", "SGD"),
    "Adagrad": ("odtc.frontend.optimizers.scaled", "Adagrad"),
    "Adam": ("odtc.frontend.optimizers.adam", "Adam"),
    "AdamW": ("odtc.frontend.optimizers.adam", "AdamW"),
    "Artifact": ("odtc.artifact", "Artifact"),
    "Group": ("odtc.frontend.optimizers.groups", "Group"),
    "Lion": ("odtc.frontend.optimizers.sgd", "Lion"),
    "LossScale": ("odtc.frontend.optimizers.update", "LossScale"),
    "Normalize": ("odtc.frontend.inputs.normalization", "Normalize"),
    "LoRA": ("odtc.frontend.trained.lora", "LoRA"),
    "Callback": ("odtc.runtime_rpc.loop.callback", "Callback"),
    "EarlyStopping": ("odtc.runtime_rpc.loop.stopping", "EarlyStopping"),
    "TimeLimit": ("odtc.runtime_rpc.loop.stopping", "TimeLimit"),
    "Checkpoint": ("odtc.runtime_rpc.loop.keeping", "Checkpoint"),
    "BestCheckpoint": ("odtc.runtime_rpc.loop.keeping", "BestCheckpoint"),
    "LiveView": ("odtc.runtime_rpc.loop.view.live_view", "LiveView"),
    "JsonLines": ("odtc.runtime_rpc.loop.logs", "JsonLines"),
    "TensorBoard": ("odtc.runtime_rpc.loop.logs", "TensorBoard"),
    "History": ("odtc.runtime_rpc.loop.history", "History"),
    "OdtcError": ("odtc.core.errors", "OdtcError"),
    "RMSProp": ("odtc.frontend.optimizers.scaled", "RMSProp"),
    "TensorSpec": ("odtc.core.specs", "TensorSpec"),
    "Trainer": ("odtc.runtime_rpc.trainer", "Trainer"),
    "Update": ("odtc.frontend.optimizers.update", "Update"),
    "compile": ("odtc.driver.entry_points", "compile_model"),
    "connect": ("odtc.runtime_rpc.connect", "connect"),
    "from_torch": ("odtc.from_pytorch", "from_torch"),
    "load": ("odtc.artifact", "load"),
    "plan": ("odtc.driver.entry_points", "plan_model"),
    "match_weights": ("odtc.against", "match_weights"),
    "replace_head": ("odtc.heads", "replace_head"),
}


def __getattr__(name: str) -> Any:
    if name == "schedules":
        return import_module("odtc.schedules")
    if name not in _HOME:
        from odtc.core.elsewhere.names import NAMES
        from odtc.core.elsewhere.rows import said_of
        from odtc.core.options.option_text import did_you_mean

        near = said_of(name, NAMES) or did_you_mean(name, __all__)
        raise AttributeError(
            f"module 'odtc' has no attribute {name!r}" + f"; {near.strip()}" * bool(near)
        )
    module, attribute = _HOME[name]
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        from odtc.core.process.missing_packages import missing_package

        if said := missing_package(error, f"odtc.{name}"):
            raise said from error
        raise


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
