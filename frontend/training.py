"""The training graph: forward, loss, backward and the optimizer's update in one Relax function.

    train_step(inputs..., label, lr, step, weights..., state...) -> (loss, updated...)
    evaluate(inputs..., weights...) -> logits

Parameters, running statistics and optimizer state are updated in place: `updated` are the same
tensors, named in the result so that no pass takes the updates for dead code. The last pass of
lowering leaves the loss alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import tvm
from tvm import relax

from odtc.core.errors import UsageError
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.frontend.differentiate import differentiate
from odtc.frontend.gradients.table import register_gradients
from odtc.frontend.graph import Graph, statistics_of
from odtc.frontend.importer import FORWARD, import_forward
from odtc.frontend.inference import inference
from odtc.frontend.losses import Loss
from odtc.frontend.optimizers import Optimizer
from odtc.frontend.update import add_updates

TRAIN_STEP = "train_step"
EVALUATE = "evaluate"


@dataclass(frozen=True)
class TrainingGraph:
    """A training step in Relax.

    Attributes:
        module: holds `train_step` and `evaluate`.
        arguments: of `train_step`, in order; `evaluate` takes the inputs and the weights of them.
        logits: what `evaluate` returns.
    """

    module: tvm.IRModule
    arguments: tuple[Argument, ...]
    logits: TensorSpec


def build_training_graph(
    graph: Graph, loss: Loss, optimizer: Optimizer, params: Sequence[str] = ("*",)
) -> TrainingGraph:
    """Derives the training step of a normalised graph.

    Args:
        graph: the normalised inference graph.
        loss: the loss on its first output.
        optimizer: the update rule.
        params: globs over ONNX initializer names; what none of them matches is frozen.

    Raises:
        UsageError: a glob matches no parameter.
        ModelError: the loss does not fit the output.
        UnsupportedError: the graph cannot be imported.
    """
    register_gradients()
    imported = import_forward(graph)
    forward = imported[FORWARD]
    logits = TensorSpec(graph.outputs[0], _shape(forward.ret_ty), str(forward.ret_ty.dtype))
    arguments = _arguments(graph, loss.target(logits), optimizer, params)
    adjoint = differentiate(imported, arguments, loss)
    module = add_updates(TRAIN_STEP, adjoint, arguments, optimizer)
    module[EVALUATE] = inference(imported, EVALUATE)
    return TrainingGraph(module, arguments, logits)


def _shape(type_: relax.TensorType) -> tuple[int, ...]:
    return tuple(int(size) for size in type_.shape)


def _arguments(
    graph: Graph, label: TensorSpec, optimizer: Optimizer, params: Sequence[str]
) -> tuple[Argument, ...]:
    statistics = statistics_of(graph)
    for glob in params:
        if not any(fnmatchcase(name, glob) for name in graph.parameters.keys() - statistics):
            raise UsageError(
                f"no trainable parameter matches {glob!r}",
                hint="`odtc check MODEL` lists the parameters' names",
            )

    def role(name: str) -> Role:
        if name in statistics:
            return Role.STATISTIC
        trained = any(fnmatchcase(name, glob) for glob in params)
        return Role.PARAMETER if trained else Role.FROZEN

    weights = [Argument(role(spec.name), spec) for spec in graph.parameter_specs()]
    return (
        *(Argument(Role.INPUT, spec) for spec in graph.inputs),
        Argument(Role.LABEL, label),
        Argument(Role.LEARNING_RATE, TensorSpec("lr", ())),
        Argument(Role.STEP, TensorSpec("step", (), "int32")),
        *weights,
        *(
            Argument(Role.STATE, TensorSpec(f"{slot}/{item.spec.name}", item.spec.shape))
            for item in weights
            if item.role is Role.PARAMETER
            for slot in optimizer.slots
        ),
    )
