"""Evaluation: one function of the library for each output, since one tensor can cross the wire."""

from collections.abc import Sequence

import tvm
from tvm import relax

from odtc.core.artifact.manifest import Evaluation
from odtc.core.specs import WEIGHT_ROLES, Argument, Role, TensorSpec, of_role
from odtc.frontend.backward.inference import without_dropout, without_gradient
from odtc.frontend.backward.random import without_masks
from odtc.frontend.backward.rebuild import (
    builder_with_kernels,
    needed_for,
    replay_needed,
    results_of,
)
from odtc.frontend.importer import FORWARD
from odtc.frontend.losses.objective import Objective

EVALUATE = "evaluate"


def add_evaluations(
    module: tvm.IRModule,
    imported: tvm.IRModule,
    arguments: Sequence[Argument],
    objective: Objective,
) -> tuple[Evaluation, ...]:
    """Adds a function for each output to a module; it computes what that output needs only.

    Args:
        module: with the kernels of `imported`.
        imported: holds `forward(inputs, weights, ...) -> outputs`, in inference mode.
        arguments: of the training step.
        objective: what can be evaluated, by number of the results of `forward`.
    """
    forward = imported[FORWARD]
    fed = of_role(arguments, Role.INPUT)
    weights = of_role(arguments, *WEIGHT_ROLES)
    variables = dict(zip([*fed, *weights], forward.params, strict=False))
    evaluations = []
    for number, (name, place) in enumerate(objective.evaluated):
        function = f"{EVALUATE}_{number}" if number else EVALUATE
        result = results_of(forward)[place]
        needed = needed_for(forward, [result])[1]
        inputs = [item for item in fed if variables[item] in needed]
        params = [variables[item] for item in (*inputs, *weights)]
        module[function] = _slice(imported, function, params, result)
        spec = TensorSpec(name, tuple(map(int, result.ty.shape)), str(result.ty.dtype))
        names = tuple(item.spec.name for item in inputs)
        evaluations.append(Evaluation(function, spec, names, objective.samples_in(place)))
    return tuple(evaluations)


def _slice(
    imported: tvm.IRModule, name: str, params: list[relax.Var], result: relax.Var
) -> relax.Function:
    """The forward function cut down to one of its results."""
    builder = builder_with_kernels(imported)
    with builder.function(name, params):
        with builder.dataflow():
            rules = (without_gradient, without_dropout, without_masks)
            replay_needed(builder, imported[FORWARD], [result], *rules)
            given = builder.emit_output(result)
        builder.emit_func_output(given)
    return relax.utils.copy_with_new_vars(builder.finalize()[name]).with_attr("global_symbol", name)
