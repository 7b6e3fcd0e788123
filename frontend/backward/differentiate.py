"""The adjoint: forward, losses and backward of a normalised graph in one Relax function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.specs import FED_ROLES, WEIGHT_ROLES, Argument, Role, batch_of, of_role
from odtc.dialect.gradient.seed import seed
from odtc.frontend.backward.ask_rules import all_rules_answer
from odtc.frontend.backward.batch_norm import TrainBatchNorm
from odtc.frontend.backward.drawing import DrawAnew
from odtc.frontend.backward.max_pool import SaveChosen
from odtc.frontend.backward.rebuild import (
    builder_with_kernels,
    inner_results,
    replay_body,
    replay_needed,
    results_of,
)
from odtc.frontend.backward.recurrent import save_steps
from odtc.frontend.backward.sparse_gradients import SparseGradients
from odtc.frontend.backward.stop_gradient import StopGradient, unmarked
from odtc.frontend.importer import FORWARD
from odtc.frontend.losses.loss import Loss
from odtc.frontend.optimizers.update import LOSS_SCALE
from odtc.frontend.origins import LOSS

_LOSS = "loss"
# What TVM's gradient pass makes of it.
ADJOINT = "loss_adjoint"


@dataclass(frozen=True)
class Trained:
    """A loss on a result of the forward function.

    Attributes:
        result: place of the result.
        loss: the loss.
        weight: its factor in the sum.
        label: the argument that it compares with; None where the loss takes none.
    """

    result: int
    loss: Loss
    weight: float
    label: Argument | None


def differentiated(arguments: Sequence[Argument]) -> list[Argument]:
    """Arguments of the adjoint: those of the forward, the labels, the loss scale, the step."""
    return [
        *of_role(arguments, Role.INPUT, *WEIGHT_ROLES),
        *of_role(arguments, Role.LABEL),
        *_loss_scale(arguments),
        *of_role(arguments, Role.STEP),
    ]


def _loss_scale(arguments: Sequence[Argument]) -> list[Argument]:
    """The loss scale, if there is one."""
    return [item for item in of_role(arguments, Role.STATE) if item.spec.name == LOSS_SCALE]


def variable_of(item: Argument) -> relax.Var:
    """A fresh variable for an argument."""
    return relax.Var(item.role.value, relax.TensorType(item.spec.shape, item.spec.dtype))


def differentiate(
    module: tvm.IRModule,
    arguments: Sequence[Argument],
    losses: Sequence[Trained],
    *,
    unbiased: bool = False,
    weighed: bool = False,
) -> tvm.IRModule:
    """A module with the adjoint.

    That is `loss_adjoint(inputs, weights, labels, step) -> ((loss, [weight], statistics...),
    (gradients...))`. A loss scale is one more argument, before the step, and the gradients are then
    those of the scaled loss.

    The losses bring their own derivatives g by the outputs y. What TVM's gradient pass sees is the
    sum of `g * y` with g taken for a constant, as one operator whose rule gives g: its gradients
    are the same, and its value is not read.

    Args:
        module: holds `forward(inputs, weights, labels) -> outputs`, in inference mode; it takes
            labels where losses are a part of it.
        arguments: of the training step; their roles say what is trained.
        losses: whose weighted sum is minimised.
        unbiased: whether running variances follow PyTorch.
        weighed: whether what the labels of the only loss weigh, for each sample of the batch, is a
            result, too: a float32 scalar.
    """
    trained = _with_losses(module, arguments, losses, unbiased=unbiased, weighed=weighed)
    adjoint = relax.transform.Gradient(_LOSS, trained.wanted)(trained.module)
    marked = _without_seed(adjoint)
    return trained.sparse.detached(unmarked(marked, ADJOINT, trained.places), ADJOINT)


def try_to_differentiate(
    module: tvm.IRModule, arguments: Sequence[Argument], losses: Sequence[Trained]
) -> None:
    """Raises what `differentiate` would, in less time and memory; see there for the arguments."""
    trained = _with_losses(module, arguments, losses, unbiased=False)
    if not all_rules_answer(trained.module, _LOSS, trained.seed):
        relax.transform.Gradient(_LOSS, trained.wanted)(trained.module)


@dataclass(frozen=True)
class _WithLosses:
    """The forward function in training mode, with its losses.

    Attributes:
        module: holds it as `loss`.
        seed: the variable that the gradient pass differentiates.
        wanted: the variables that it differentiates by.
        places: of the arguments that anything of is trained.
        sparse: which of these stand for a part of a weight.
    """

    module: tvm.IRModule
    seed: relax.Var
    wanted: Sequence[relax.Var]
    places: Sequence[int]
    sparse: SparseGradients


def _with_losses(
    module: tvm.IRModule,
    arguments: Sequence[Argument],
    losses: Sequence[Trained],
    *,
    unbiased: bool,
    weighed: bool = False,
) -> _WithLosses:
    forward = module[FORWARD]
    every = differentiated(arguments)
    params = [*forward.params, *map(variable_of, every[len(forward.params) :])]
    variables = dict(zip(every, params, strict=True))
    statistics = [variables[item] for item in of_role(arguments, Role.STATISTIC)]
    trained = [variables[item] for item in of_role(arguments, Role.PARAMETER)]
    still = [variables[item] for item in of_role(arguments, Role.FROZEN)]
    batch_norm = TrainBatchNorm(still, unbiased=unbiased)
    sparse = SparseGradients({variables[i]: i.block for i in arguments if i.block})
    outputs = results_of(forward)
    builder = builder_with_kernels(module)
    with builder.function(_LOSS, [*params, *sparse.parts.values()]):
        with builder.dataflow():
            modes = (batch_norm, DrawAnew(params[-1]), save_steps)
            rules = (*modes, StopGradient(trained), SaveChosen(forward), sparse)
            replay_body(builder, forward, *rules)
            pairs = [_emitted(builder, item, outputs, variables) for item in losses]
            seed, value = (_sum(builder, terms) for terms in zip(*pairs, strict=True))
            for item in _loss_scale(arguments):
                seed = builder.emit(R.multiply(seed, variables[item]))
            new = [_new_value(variable, batch_norm.updates) for variable in statistics]
            if weighed:
                (only,) = losses
                new = [_weight(builder, only, outputs, variables), *new]
            results = [builder.emit_output(result) for result in (seed, value, *new)]
        builder.emit_func_output(relax.Tuple(results))
    wanted = [sparse.parts.get(variable, variable) for variable in trained]
    learned = {*trained, *wanted}
    places = [at for at, each in enumerate((*params, *sparse.parts.values())) if each in learned]
    return _WithLosses(builder.finalize(), results[0], wanted, places, sparse)


def _emitted(
    builder: relax.BlockBuilder,
    item: Trained,
    outputs: Sequence[relax.Var],
    variables: Mapping[Argument, relax.Var],
) -> tuple[relax.Expr, relax.Expr]:
    """Emits the function that the gradient pass differentiates, and the value of a loss."""
    output = outputs[item.result]
    label = None if item.label is None else variables[item.label]
    value, derivative = item.loss.emit(builder, output, label)
    if item.weight != 1.0:
        weight = relax.const(np.float32(item.weight))
        value, derivative = R.multiply(value, weight), R.multiply(derivative, weight)
    # What comes before the loss is of the forward pass: the derivative has to.
    constant = builder.emit(no_grad(derivative))
    found = builder.emit(seed(output, constant))
    return found, builder.emit(value, str(LOSS))


def _weight(
    builder: relax.BlockBuilder,
    item: Trained,
    outputs: Sequence[relax.Var],
    variables: Mapping[Argument, relax.Var],
) -> relax.Var:
    """Emits what the labels of a loss weigh together, over the number of samples."""
    label = None if item.label is None else variables[item.label]
    divisor = item.loss.divisor(builder, outputs[item.result], label)
    samples = batch_of([each for each in variables if each.role in FED_ROLES])
    return builder.emit(R.multiply(divisor, relax.const(np.float32(1.0 / samples))))


def _sum(builder: relax.BlockBuilder, terms: Sequence[relax.Expr]) -> relax.Expr:
    total = terms[0]
    for term in terms[1:]:
        total = builder.emit(R.add(total, term))
    return total


def _without_seed(module: tvm.IRModule) -> tvm.IRModule:
    """Leaves out the first result of the adjoint, and what only that needs."""
    adjoint = module[ADJOINT]
    (_, *results), gradients = inner_results(adjoint)
    builder = builder_with_kernels(module)
    with builder.function(ADJOINT, adjoint.params):
        with builder.dataflow():
            replay_needed(builder, adjoint, [*results, *gradients])
            kept = [
                relax.Tuple([builder.emit_output(variable) for variable in part])
                for part in (results, gradients)
            ]
        builder.emit_func_output(relax.Tuple(kept))
    return builder.finalize()


def _new_value(statistic: relax.Var, updates: Sequence[tuple[relax.Var, relax.Expr]]) -> relax.Expr:
    """The last value that a batch normalisation gave to the statistic."""
    return [value for variable, value in updates if variable.same_as(statistic)][-1]
