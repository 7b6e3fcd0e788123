"""The training graph: forward, loss, backward and the optimizer's update in one Relax function.

    train_step(inputs..., label, lr, weights..., state...) -> (loss, updated...)
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
from odtc.core.specs import WEIGHT_ROLES, Argument, Role, TensorSpec
from odtc.frontend.batch_norm import TrainBatchNorm
from odtc.frontend.gradients.table import register_gradients
from odtc.frontend.graph import Graph, statistics_of
from odtc.frontend.importer import import_forward
from odtc.frontend.losses import Loss
from odtc.frontend.optimizers import Optimizer
from odtc.frontend.rebuild import inner_results, replay_body
from odtc.frontend.stop_gradient import StopGradient
from odtc.frontend.update_kernels import assign_kernel

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
    forward = import_forward(graph)
    logits = TensorSpec(graph.outputs[0], _shape(forward.ret_ty), str(forward.ret_ty.dtype))
    arguments = _arguments(graph, loss.target(logits), optimizer, params)
    adjoint = _differentiate(forward, arguments, loss)
    module = _update(adjoint, arguments, optimizer)
    module[EVALUATE] = relax.utils.copy_with_new_vars(forward).with_attr("global_symbol", EVALUATE)
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
        *weights,
        *(
            Argument(Role.STATE, TensorSpec(f"{slot}/{item.spec.name}", item.spec.shape))
            for item in weights
            if item.role is Role.PARAMETER
            for slot in optimizer.slots
        ),
    )


def _of_role(arguments: Sequence[Argument], *roles: Role) -> list[Argument]:
    return [item for item in arguments if item.role in roles]


def _differentiated(arguments: Sequence[Argument]) -> list[Argument]:
    """Arguments of the loss and of its adjoint: those of the forward function, then the label."""
    return [*_of_role(arguments, Role.INPUT, *WEIGHT_ROLES), *_of_role(arguments, Role.LABEL)]


def _variable(item: Argument) -> relax.Var:
    return relax.Var(item.role.value, relax.TensorType(item.spec.shape, item.spec.dtype))


def _differentiate(
    forward: relax.Function, arguments: Sequence[Argument], loss: Loss
) -> relax.Function:
    """`(inputs, weights, label) -> ((loss, new statistics...), (gradients...))`."""
    (label,) = (_variable(item) for item in _of_role(arguments, Role.LABEL))
    params = [*forward.params, label]
    variables = dict(zip(_differentiated(arguments), params, strict=True))
    statistics = [variables[item] for item in _of_role(arguments, Role.STATISTIC)]
    trained = [variables[item] for item in _of_role(arguments, Role.PARAMETER)]
    batch_norm = TrainBatchNorm()
    builder = relax.BlockBuilder()
    with builder.function("loss", params):
        with builder.dataflow():
            replay_body(builder, forward, batch_norm, StopGradient(trained))
            value = loss.emit(builder, forward.body.body, label)
            new = [_new_value(variable, batch_norm.updates) for variable in statistics]
            results = [builder.emit_output(result) for result in (value, *new)]
        builder.emit_func_output(relax.Tuple(results))
    gradient = relax.transform.Gradient("loss", require_grads=trained, target_index=0)
    return gradient(builder.finalize())["loss_adjoint"]


def _new_value(statistic: relax.Var, updates: Sequence[tuple[relax.Var, relax.Expr]]) -> relax.Expr:
    """The last value that a batch normalisation gave to the statistic."""
    return [value for variable, value in updates if variable.same_as(statistic)][-1]


def _update(
    adjoint: relax.Function, arguments: Sequence[Argument], optimizer: Optimizer
) -> tvm.IRModule:
    """The training step: the adjoint's body, then one in-place update per changed tensor."""
    results, gradients = inner_results(adjoint)
    variables = dict(zip(_differentiated(arguments), adjoint.params, strict=True))
    variables |= {item: _variable(item) for item in arguments if item not in variables}
    trained = _of_role(arguments, Role.PARAMETER)
    statistics = _of_role(arguments, Role.STATISTIC)
    (rate,) = _of_role(arguments, Role.LEARNING_RATE)
    states = iter(_of_role(arguments, Role.STATE))
    builder = relax.BlockBuilder()
    params = [variables[item] for item in arguments]
    with builder.function(TRAIN_STEP, params):
        with builder.dataflow():
            replay_body(builder, adjoint)
            updated = []
            for item, gradient in zip(trained, gradients, strict=True):
                state = [variables[next(states)] for _ in optimizer.slots]
                changed = [variables[item], *state]
                kernel = optimizer.update_kernel(item.spec.shape)
                updated.append(_in_place(builder, kernel, changed, [gradient, variables[rate]]))
            for item, value in zip(statistics, results[1:], strict=True):
                kernel = assign_kernel(item.spec.shape)
                updated.append(_in_place(builder, kernel, [variables[item]], [value]))
            returned = [builder.emit_output(value) for value in (results[0], *updated)]
        builder.emit_func_output(relax.Tuple(returned))
    return builder.finalize()


def _in_place(
    builder: relax.BlockBuilder,
    kernel: tvm.tirx.PrimFunc,
    changed: Sequence[relax.Var],
    others: Sequence[relax.Expr],
) -> relax.Var:
    """Calls a kernel that changes its first arguments."""
    # The builder gives the same name back for a kernel that it holds already.
    name = builder.add_func(kernel, "update")
    return builder.emit(
        relax.op.call_tir_inplace(
            name,
            relax.Tuple([*changed, *others]),
            list(range(len(changed))),
            [variable.ty for variable in changed],
        )
    )
