"""Evaluation: one function of the library for each output, since one tensor can cross the wire."""

from collections.abc import Sequence
from dataclasses import replace

import tvm
from tvm import ir, relax, tirx

from odtc.core.artifact.manifest import Evaluation
from odtc.core.specs import WEIGHT_ROLES, Argument, Role, TensorSpec, of_role
from odtc.frontend.backward.inference import without_dropout, without_gradient
from odtc.frontend.backward.random import without_masks
from odtc.frontend.backward.rebuild import (
    Replay,
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
        module[function] = _slice(imported, forward, function, params, result)
        spec = TensorSpec(name, tuple(map(int, result.ty.shape)), str(result.ty.dtype))
        names = tuple(item.spec.name for item in inputs)
        evaluations.append(Evaluation(function, spec, names, objective.samples_in(place)))
    return tuple(evaluations)


def add_smaller(
    module: tvm.IRModule,
    imported: tvm.IRModule,
    samples: int,
    arguments: Sequence[Argument],
    objective: Objective,
    evaluations: Sequence[Evaluation],
) -> tuple[Evaluation, ...]:
    """Adds evaluations for fewer samples to a module that has those for a whole batch.

    Args:
        module: of the training step.
        imported: `forward` for so many samples; it has kernels of its own.
        samples: that are evaluated.
        arguments: of the training step, whose weights are those of `imported`.
        objective: as of `add_evaluations`.
        evaluations: of the module, in whose order these are.

    Returns:
        The evaluations, each with one more smaller one where its output holds samples.
    """
    forward, taken_over = imported[FORWARD], _taken_over(module, imported)
    fed = of_role(arguments, Role.INPUT)
    weights = of_role(arguments, *WEIGHT_ROLES)
    variables = dict(zip([*fed, *weights], forward.params, strict=False))

    def made(usual: Evaluation, number: int) -> Evaluation:
        if usual.place is None:
            return usual
        function, result = f"{usual.function}_of_{samples}", results_of(forward)[number]
        items = [*(item for item in fed if item.spec.name in usual.inputs), *weights]
        params = [variables[item] for item in items]
        module[function] = _slice(module, forward, function, params, result, taken_over)
        spec = replace(usual.output, shape=tuple(map(int, result.ty.shape)))
        smaller = Evaluation(function, spec, usual.inputs, usual.place)
        return replace(usual, smaller=(*usual.smaller, smaller))

    numbers = [number for _, number in objective.evaluated]
    return tuple(made(*each) for each in zip(evaluations, numbers, strict=True))


def _taken_over(module: tvm.IRModule, imported: tvm.IRModule) -> Replay:
    """Adds the kernels of one module to another; a replay rule that calls them there."""
    builder, names = builder_with_kernels(module), dict[ir.GlobalVar, ir.GlobalVar]()
    for variable, function in imported.functions_items():
        if isinstance(function, tirx.PrimFunc):
            names[variable] = builder.add_func(function, variable.name_hint)
    kernels = builder.get()
    for variable in names.values():
        module[variable] = kernels[variable]

    def rule(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        call = binding.value
        if not isinstance(call, relax.Call) or not any(each in names for each in call.args):
            return None
        arguments = [names.get(each, each) for each in call.args]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    return rule


def _slice(
    module: tvm.IRModule,
    forward: relax.Function,
    name: str,
    params: list[relax.Var],
    result: relax.Var,
    *rules: Replay,
) -> relax.Function:
    """A forward function cut down to one of its results, by rules and those of an evaluation.

    The module has the kernels that it calls then.
    """
    builder = builder_with_kernels(module)
    with builder.function(name, params):
        with builder.dataflow():
            rules = (*rules, without_gradient, without_dropout, without_masks)
            replay_needed(builder, forward, [result], *rules)
            given = builder.emit_output(result)
        builder.emit_func_output(given)
    return relax.utils.copy_with_new_vars(builder.finalize()[name]).with_attr("global_symbol", name)
