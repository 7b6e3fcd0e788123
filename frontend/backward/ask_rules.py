"""Asks all gradient rules that the gradient pass would ask, and keeps nothing of what they say.

The pass itself walks the function about eight times, and holds the adjoint of all of it: of a dry
run that is half of the time. What a rule is asked depends on its call alone, so that the adjoint
that comes to the call may be any variable of the type of its result.
"""

from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.ir.expr import GenericConst

from odtc.core.ir.relax_calls import operator_of
from odtc.frontend.backward.rebuild import builder_with_kernels
from odtc.frontend.gradients.kernels import KERNEL_RULES

# So many rules share a builder, which holds what they emit.
_TOGETHER = 500
_KERNEL, _NO_GRADIENT = "relax.call_tir_with_grad", "relax.grad.no_grad"


def all_rules_answer(module: tvm.IRModule, name: str, target: relax.Var) -> bool:
    """Whether each rule gives adjoints of the types of its call's arguments.

    Where one does not, the gradient pass says why.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
        target: what would be differentiated: a variable of the block.
    """
    (block,) = module[name].body.blocks
    reached, waiting = {target}, list(block.bindings)
    while waiting:
        builder = builder_with_kernels(module)
        with builder.testing_scope([]):
            for _ in range(min(_TOGETHER, len(waiting))):
                binding = waiting.pop()
                if binding.var in reached and not _reach(builder, binding, reached):
                    return False
    return True


def _reach(builder: relax.BlockBuilder, binding: relax.Binding, reached: set[relax.Var]) -> bool:
    """Adds the variables that a binding has adjoints for; tells if it has all that it should."""
    value = binding.value
    if isinstance(value, relax.Call):
        try:
            return _ask(builder, binding.var, value, reached)
        except Exception:  # whatever it is, the pass meets it again
            return False
    if isinstance(value, relax.Var):
        reached.add(value)
    elif isinstance(value, relax.TupleGetItem):
        reached.add(value.tuple_value)
    elif isinstance(value, relax.Tuple):
        reached.update(_variables(value))
    else:
        return isinstance(value, GenericConst)
    return True


def _ask(
    builder: relax.BlockBuilder, variable: relax.Var, call: relax.Call, reached: set[relax.Var]
) -> bool:
    """Asks the rule of a call."""
    operator = operator_of(call)
    if not tvm_ffi.structural_equal(variable.ty, call.ty):
        # A rule of a replay put another call in the place of one; the pass makes new variables.
        variable = relax.DataflowVar(variable.name, call.ty)
    adjoint = relax.DataflowVar("adjoint", call.ty)
    arguments = call.args
    if operator == _KERNEL:
        arguments = call.args[1].fields
        given = KERNEL_RULES[str(call.attrs.te_grad_name)](builder, call, adjoint)
    elif not operator:
        return True
    else:
        given = call.op.get_attr("FPrimalGradient")(variable, call, adjoint, builder)
    if len(given) != len(arguments):
        return False
    for argument, each in zip(arguments, given, strict=True):
        if operator_of(each) == _NO_GRADIENT or isinstance(argument, GenericConst):
            continue
        if not isinstance(argument, relax.Var | relax.Tuple):
            return False
        if not tvm_ffi.structural_equal(builder.normalize(each).ty, argument.ty):
            return False
        reached.update(_variables(argument))
    return True


def _variables(value: ir.Expr) -> Iterator[relax.Var]:
    """The variables in a variable or a tuple of them."""
    if isinstance(value, relax.Var):
        yield value
    elif isinstance(value, relax.Tuple):
        for each in value.fields:
            yield from _variables(each)
