"""From the adjoint to the training step: one update in place per changed tensor."""

from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from odtc.core.ir.argument_roles import roles_attribute
from odtc.core.specs import ACCUMULATOR, Argument, Block, Role, TensorSpec, of_role
from odtc.frontend.backward.differentiate import ADJOINT, differentiated, variable_of
from odtc.frontend.backward.gradient_pieces import pieces
from odtc.frontend.backward.merge_products import MergeProducts
from odtc.frontend.backward.rebuild import builder_with_kernels, inner_results, replay_body
from odtc.frontend.optimizers.update import (
    LOSS_SCALE,
    Update,
    parameter_arguments,
    scalar_arguments,
)
from odtc.frontend.updates.control_kernels import (
    TOTAL,
    Control,
    count_kernel,
    loss_total_kernel,
    rescale_kernel,
    total_kernel,
)
from odtc.frontend.updates.part_update import on_block
from odtc.frontend.updates.update_kernels import (
    CONTROL,
    accumulate_kernel,
    statistic_kernel,
    update_kernel,
)
from odtc.frontend.updates.weighing_kernels import SUMS, report_kernel, weigh_kernel

# As no parameter's accumulator is called: its name ends with that of a weight, which has one.
_SUMS_NAME = f"{ACCUMULATOR}/"


def weights_argument() -> Argument:
    """The state in which the weights of an update's calls, and of a step's, are added up."""
    return Argument(Role.STATE, TensorSpec(_SUMS_NAME, SUMS))


def add_updates(
    name: str,
    module: tvm.IRModule,
    arguments: Sequence[Argument],
    update: Update,
    weighed: int = 0,
) -> tvm.IRModule:
    """A module with the training step: the adjoint's body, then the updates.

    Args:
        name: of the training step.
        module: what `differentiate` returns.
        arguments: of the training step, in order.
        update: how gradients change the weights.
        weighed: calls of a step, where calls count as much as their labels weigh; else 0.
    """
    adjoint = module[ADJOINT]
    results, gradients = inner_results(adjoint)
    variables = dict(zip(differentiated(arguments), adjoint.params, strict=True))
    variables |= {item: variable_of(item) for item in arguments if item not in variables}
    trained = of_role(arguments, Role.PARAMETER)
    statistics = of_role(arguments, Role.STATISTIC)
    builder = builder_with_kernels(module)
    params = [variables[item] for item in arguments]
    with builder.function(name, params, dict(roles_attribute(arguments))):
        with builder.dataflow():
            replay_body(builder, adjoint, MergeProducts(adjoint))
            loss, *results = results
            weight = results.pop(0) if weighed else None
            phase = UpdatePhase(builder, update, variables, loss)
            if weight is not None:
                phase.weigh(weight, weighed)
            updated = phase.emit(trained, gradients)
            for item, value in zip(statistics, results[: len(statistics)], strict=True):
                kernel = statistic_kernel(item.spec.shape)
                updated.append(in_place(builder, kernel, [variables[item]], [value, phase.loss]))
            returned = [builder.emit_output(value) for value in (phase.loss, *updated)]
        builder.emit_func_output(relax.Tuple(returned))
    return builder.finalize()


class UpdatePhase:
    """Emits the update of all trained parameters.

    Args:
        builder: its dataflow block is open.
        update: how gradients change the weights.
        variables: of the training step's arguments.
        loss: of the step; updates mark it.

    Attributes:
        loss: that the step returns.
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        update: Update,
        variables: Mapping[Argument, relax.Var],
        loss: relax.Expr,
    ) -> None:
        self._builder, self.loss = builder, loss
        self._update = update
        # Apart: a file may name a weight as the step names its own arguments, such as `lr`.
        self._parameters = _by_name(variables, Role.PARAMETER)
        self._states = _by_name(variables, Role.STATE, Role.AVERAGE)
        roles = {item.role: variable for item, variable in variables.items()}
        self._rate, self._step = roles[Role.LEARNING_RATE], roles[Role.STEP]
        self._updated: list[relax.Var] = []
        # What labels of this call weigh, and the sums of it; none where all calls weigh the same.
        self._weighed: tuple[relax.Expr, relax.Var] | None = None

    def weigh(self, weight: relax.Expr, parts: int) -> None:
        """Lets the calls of an update count as much as they weigh; before anything is updated.

        Args:
            weight: of this call.
            parts: calls that make a step.
        """
        kernel = weigh_kernel(self._update.accumulate, parts)
        sums = self._change(kernel, [self._states[_SUMS_NAME]], [self.loss, weight, self._step])
        self._weighed = weight, sums
        if parts > 1:
            self.loss = self._call(report_kernel(parts), [sums, self.loss, self._step], ())

    def emit(self, trained: Sequence[Argument], gradients: Sequence[relax.Expr]) -> list[relax.Var]:
        """Returns what was changed, for the step's result.

        Args:
            trained: the parameters.
            gradients: their gradients in this step, in the same order.
        """
        if self._update.accumulate > 1:
            gradients = [self._accumulated(*pair) for pair in zip(trained, gradients, strict=True)]
        clock = self._control(trained, gradients) if self._update.is_controlled else self._step
        for item, gradient in zip(trained, gradients, strict=True):
            self._update_parameter(item, gradient, clock)
        return self._updated

    def _accumulated(self, item: Argument, gradient: relax.Expr) -> relax.Var:
        """The sum of the gradients since the last update."""
        accumulator = self._states[f"{ACCUMULATOR}/{item.spec.name}"]
        update, weight = self._update, list(self._weighed[:1]) if self._weighed else []
        kernel = accumulate_kernel(
            item.trained_shape, update.accumulate, weighed=bool(weight), skips=update.skips
        )
        others = [gradient, self._step, *weight, *([self.loss] if update.skips else [])]
        return self._change(kernel, [accumulator], others)

    def _control(self, trained: Sequence[Argument], gradients: Sequence[relax.Expr]) -> relax.Var:
        """Emits what the updates share, from all gradients."""
        update, operands = self._update, [self._step]
        if update.needs_total:
            operands.append(self._total(trained, gradients))
        *scaled, made = [self._states[item.spec.name] for item in scalar_arguments(update)] or [
            None
        ]
        sums = list(self._weighed[1:]) if self._weighed else []
        kernel = Control(update, weighed=bool(sums)).kernel()
        if made is None:
            return self._call(kernel, [*operands, *sums], CONTROL)
        control = self._call(kernel, [*operands, *scaled[:1], made, *sums], CONTROL)
        if update.scaling:
            counts = rescale_kernel(update.scaling, update.accumulate)
        else:
            counts = count_kernel(update.accumulate)
        self._change(counts, [*scaled, made], [*operands[1:], self._step])
        return control

    def _total(self, trained: Sequence[Argument], gradients: Sequence[relax.Expr]) -> relax.Var:
        """The sum of squares, and the number of elements that are not finite."""
        scaled = self._update.scaling is not None
        scale = [self._states[LOSS_SCALE]] if scaled else []
        total: relax.Expr = relax.const(np.zeros(TOTAL, np.float32))
        if self._update.skips:
            total = self._call(loss_total_kernel(), [self.loss], TOTAL)
        for item, gradient in zip(trained, gradients, strict=True):
            kernel = total_kernel(item.trained_shape, self._update.accumulate, scaled=scaled)
            total = self._call(kernel, [gradient, total, self._step, *scale], TOTAL)
        return total

    def _update_parameter(self, item: Argument, gradient: relax.Expr, clock: relax.Var) -> None:
        """Updates a parameter: a large one by blocks, where nothing else reads its gradient."""
        parts = []
        if not (item.block or self._update.is_controlled or self._update.accumulate > 1):
            parts = list(pieces(self._builder, gradient))
        for block, part in parts or [(item.block, gradient)]:
            self._update_block(item, block, part, clock)

    def _update_block(
        self, item: Argument, block: Block | None, gradient: relax.Expr, clock: relax.Var
    ) -> None:
        update = self._update
        kernel = update_kernel(
            update.rule_of(item.spec.name),
            tuple(int(size) for size in gradient.ty.shape),
            controlled=update.is_controlled,
            every=update.accumulate,
            clip_value=update.clip_value,
            ema=update.ema,
        )
        state = [each.spec.name for each in parameter_arguments(update, item)]
        kept = [name for name in state if not name.startswith(f"{ACCUMULATOR}/")]
        changed = [self._parameters[item.spec.name], *(self._states[name] for name in kept)]
        if block:
            # The average is that of the whole parameter: an evaluation takes it in its place.
            own = (0,) if update.ema is None else (0, len(changed) - 1)
            whole = own if item.block else range(len(changed))
            kernel = on_block(kernel, whole, item.spec.shape, block)
        self._change(kernel, changed, [gradient, self._rate, clock, self.loss])

    def _change(
        self,
        kernel: tvm.tirx.PrimFunc,
        changed: Sequence[relax.Var],
        others: Sequence[relax.Expr],
    ) -> relax.Var:
        self._updated.append(in_place(self._builder, kernel, changed, others))
        return self._updated[-1]

    def _call(
        self, kernel: tvm.tirx.PrimFunc, operands: Sequence[relax.Expr], shape: tuple[int, ...]
    ) -> relax.Var:
        name = self._builder.add_func(kernel, "update")
        result = relax.TensorType(shape, "float32")
        return self._builder.emit(relax.call_tir(name, relax.Tuple(operands), result))


def _by_name(variables: Mapping[Argument, relax.Var], *roles: Role) -> dict[str, relax.Var]:
    return {item.spec.name: each for item, each in variables.items() if item.role in roles}


def in_place(
    builder: relax.BlockBuilder,
    kernel: tvm.tirx.PrimFunc,
    changed: Sequence[relax.Var],
    others: Sequence[relax.Expr],
) -> relax.Var:
    """Calls a kernel that changes its first arguments; returns these as they are after it."""
    # The builder gives the same name back for a kernel that it holds already.
    kernel_name = builder.add_func(kernel, "update")
    return builder.emit(
        relax.op.call_tir_inplace(
            kernel_name,
            relax.Tuple([*changed, *others]),
            list(range(len(changed))),
            [variable.ty for variable in changed],
        )
    )
