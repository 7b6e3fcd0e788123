"""Whether a module is well formed, in a time that grows with its calls.

TVM's check of types copies the set of all variables so far at each call of a kernel: of a decoder
of thirty layers that took an eighth or more of a compile. Types are a matter of a binding and of
what it reads. So they are checked some bindings at a time, in a function of these alone; what is
said of a function as a whole, such as that each variable is bound once, is checked of the whole.
"""

from collections.abc import Iterator

import tvm
from tvm import ir, relax
from tvm.relax.expr import _update_type

# Bindings whose types are checked at a time.
PIECE = 32


def verify(module: tvm.IRModule, *, types: bool = True) -> None:
    """Verifies a module.

    Args:
        module: functions of Relax, and their kernels.
        types: whether those of what they compute are verified, too, and not their form alone.

    Raises:
        Exception: of TVM's; the module is not well formed.
    """
    relax.analysis.well_formed(module, check_ty=False)
    if types and not all(map(_is_typed, module.functions.values())):
        # A piece does not know the sizes that another one has a name for.
        relax.analysis.well_formed(module, check_ty=True)


def _is_typed(function: ir.BaseFunc) -> bool:
    """Whether each piece of a function has right types, by itself."""
    if not isinstance(function, relax.Function):
        return True
    return all(map(relax.analysis.check_well_formed, _pieces(function)))


def _pieces(function: relax.Function) -> Iterator[relax.Function]:
    """Functions of some of the bindings each, and one of the parameters and the result."""
    body = function.body
    nothing = relax.Var("nothing", relax.TupleType([]))
    for block in body.blocks:
        kind, bindings = type(block), block.bindings[:]
        for first in range(0, len(bindings), PIECE):
            piece = bindings[first : first + PIECE]
            read = relax.analysis.free_vars(relax.SeqExpr([kind(piece)], relax.Tuple([])))
            # What is read may be a variable of a dataflow block, which is no parameter.
            given = [relax.Var(each.name, each.ty) for each in read]
            bound = kind([*map(relax.VarBinding, read, given), *piece])
            yield _like(function, [*given, nothing], [bound], nothing, (nothing.ty, nothing.ty))
    read = {*function.params, *relax.analysis.free_vars(body.body)}
    yield _like(function, [*read], [], body.body, (body.ty, function.ret_ty))


def _like(
    function: relax.Function,
    parameters: list[relax.Var],
    blocks: list[relax.BindingBlock],
    result: relax.Expr,
    types: tuple[ir.Type, ir.Type],
) -> relax.Function:
    """A function that may do what another one may; types are of its body, and as it is declared."""
    body, (own, declared) = relax.SeqExpr(blocks, result), types
    _update_type(body, own)
    return relax.Function(parameters, body, declared, function.is_pure, function.attrs)
