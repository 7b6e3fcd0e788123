"""The adjoint: forward, loss and backward of a normalised graph in one Relax function."""

from collections.abc import Sequence

import tvm
from tvm import relax

from odtc.core.specs import WEIGHT_ROLES, Argument, Role, of_role
from odtc.frontend.batch_norm import TrainBatchNorm
from odtc.frontend.importer import FORWARD
from odtc.frontend.losses import Loss
from odtc.frontend.rebuild import builder_with_kernels, replay_body
from odtc.frontend.stop_gradient import StopGradient

# What TVM's gradient pass makes of the function `loss`.
ADJOINT = "loss_adjoint"


def differentiated(arguments: Sequence[Argument]) -> list[Argument]:
    """Arguments of the adjoint: those of the forward function, then the label."""
    return [*of_role(arguments, Role.INPUT, *WEIGHT_ROLES), *of_role(arguments, Role.LABEL)]


def variable_of(item: Argument) -> relax.Var:
    """A fresh variable for an argument."""
    return relax.Var(item.role.value, relax.TensorType(item.spec.shape, item.spec.dtype))


def differentiate(module: tvm.IRModule, arguments: Sequence[Argument], loss: Loss) -> tvm.IRModule:
    """A module with the adjoint.

    That is `loss_adjoint(inputs, weights, label) -> ((loss, statistics...), (gradients...))`.

    Args:
        module: holds `forward(inputs, weights) -> logits`, in inference mode.
        arguments: of the training step; their roles say what is trained.
        loss: the loss on the logits.
    """
    forward = module[FORWARD]
    (label,) = (variable_of(item) for item in of_role(arguments, Role.LABEL))
    params = [*forward.params, label]
    variables = dict(zip(differentiated(arguments), params, strict=True))
    statistics = [variables[item] for item in of_role(arguments, Role.STATISTIC)]
    trained = [variables[item] for item in of_role(arguments, Role.PARAMETER)]
    batch_norm = TrainBatchNorm()
    builder = builder_with_kernels(module)
    with builder.function("loss", params):
        with builder.dataflow():
            replay_body(builder, forward, batch_norm, StopGradient(trained))
            value = loss.emit(builder, forward.body.body, label)
            new = [_new_value(variable, batch_norm.updates) for variable in statistics]
            results = [builder.emit_output(result) for result in (value, *new)]
        builder.emit_func_output(relax.Tuple(results))
    return relax.transform.Gradient("loss", trained, target_index=0)(builder.finalize())


def _new_value(statistic: relax.Var, updates: Sequence[tuple[relax.Var, relax.Expr]]) -> relax.Expr:
    """The last value that a batch normalisation gave to the statistic."""
    return [value for variable, value in updates if variable.same_as(statistic)][-1]
