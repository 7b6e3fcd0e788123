"""From the adjoint to the training step: one update in place per changed tensor."""

from collections.abc import Sequence

import tvm
from tvm import relax

from odtc.core.specs import Argument, Role, of_role
from odtc.frontend.differentiate import ADJOINT, differentiated, variable_of
from odtc.frontend.optimizers import Optimizer
from odtc.frontend.rebuild import builder_with_kernels, inner_results, replay_body
from odtc.frontend.update_kernels import assign_kernel


def add_updates(
    name: str, module: tvm.IRModule, arguments: Sequence[Argument], optimizer: Optimizer
) -> tvm.IRModule:
    """A module with the training step: the adjoint's body, then the updates.

    Args:
        name: of the training step.
        module: what `differentiate` returns.
        arguments: of the training step, in order.
        optimizer: the update rule.
    """
    adjoint = module[ADJOINT]
    results, gradients = inner_results(adjoint)
    variables = dict(zip(differentiated(arguments), adjoint.params, strict=True))
    variables |= {item: variable_of(item) for item in arguments if item not in variables}
    trained = of_role(arguments, Role.PARAMETER)
    statistics = of_role(arguments, Role.STATISTIC)
    (rate,) = of_role(arguments, Role.LEARNING_RATE)
    states = iter(of_role(arguments, Role.STATE))
    builder = builder_with_kernels(module)
    params = [variables[item] for item in arguments]
    with builder.function(name, params):
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
    kernel_name = builder.add_func(kernel, "update")
    return builder.emit(
        relax.op.call_tir_inplace(
            kernel_name,
            relax.Tuple([*changed, *others]),
            list(range(len(changed))),
            [variable.ty for variable in changed],
        )
    )
