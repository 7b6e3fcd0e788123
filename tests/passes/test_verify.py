"""Modules are verified some bindings at a time, as TVM verifies them at once."""

from collections.abc import Callable

import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.expr import _update_type

from odtc.passes.ir import verify as verifying
from odtc.passes.ir.verify import PIECE, verify

TENSOR, LARGER = (relax.TensorType((size,), "float32") for size in (4, 5))
# Bindings before the one that a case is about, and behind it.
AROUND = 2 * PIECE + 3
Make = Callable[[relax.Expr], relax.Binding]


def sum_of(value: relax.Expr) -> relax.Call:
    return relax.BlockBuilder().normalize(relax.op.add(value, value))


def right(value: relax.Expr) -> relax.Binding:
    return relax.VarBinding(relax.Var("right", TENSOR), sum_of(value))


def of_another_type(value: relax.Expr) -> relax.Binding:
    """What a variable holds is smaller than it says."""
    return relax.VarBinding(relax.Var("larger", LARGER), sum_of(value))


def wrongly_inferred(value: relax.Expr) -> relax.Binding:
    """A call says another type than its operator has."""
    call = relax.op.add(value, value)
    _update_type(call, LARGER)
    return relax.VarBinding(relax.Var("larger", LARGER), call)


def not_inferred(value: relax.Expr) -> relax.Binding:
    return relax.VarBinding(relax.Var("unknown", TENSOR), relax.op.add(value, value))


def impure(value: relax.Expr) -> relax.Binding:
    call = relax.Call(relax.ExternFunc("effect"), [value], ty_args=[TENSOR])
    return relax.VarBinding(relax.Var("impure", TENSOR), relax.BlockBuilder().normalize(call))


def unbound(value: relax.Expr) -> relax.Binding:
    return relax.VarBinding(relax.Var("reads", TENSOR), sum_of(relax.Var("unbound", value.ty)))


BROKEN = (of_another_type, wrongly_inferred, not_inferred, impure, unbound)


def module_of(
    make: Make, *, block: type[relax.BindingBlock] = relax.BindingBlock, pure: bool = True
) -> tvm.IRModule:
    """A chain of sums, in the middle of which a binding is that is made of the one before."""
    x = relax.Var("x", TENSOR)
    kind = relax.DataflowVar if block is relax.DataflowBlock else relax.Var
    bindings: list[relax.Binding] = []
    value: relax.Expr = x
    for number in range(2 * AROUND):
        if number == AROUND:
            bindings.append(make(value))
        bindings.append(relax.VarBinding(kind(f"v{number}", TENSOR), sum_of(value)))
        value = bindings[-1].var
    result = relax.Var("result", TENSOR)
    bindings.append(relax.VarBinding(result, sum_of(value)))
    body = relax.SeqExpr([block(bindings)], result)
    _update_type(body, TENSOR)
    return tvm.IRModule({"step": relax.Function([x], body, TENSOR, pure)})


def agrees(module: tvm.IRModule) -> bool:
    """Whether a module is well formed, by TVM's words and by ours."""
    is_right = relax.analysis.check_well_formed(module)
    if is_right:
        verify(module)
    else:
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            verify(module)
    return is_right


@pytest.mark.parametrize("block", [relax.BindingBlock, relax.DataflowBlock])
@pytest.mark.parametrize("make", BROKEN)
def test_what_is_not_well_formed_is_refused(make: Make, block: type[relax.BindingBlock]) -> None:
    assert agrees(module_of(right, block=block))
    assert not agrees(module_of(make, block=block))


def test_effects_are_for_functions_that_say_so() -> None:
    assert agrees(module_of(impure, pure=False))
    assert not agrees(module_of(impure, block=relax.DataflowBlock, pure=False))


def test_a_result_without_a_type_is_refused() -> None:
    x = relax.Var("x", TENSOR)
    for body in (relax.SeqExpr([], x), relax.SeqExpr([], relax.Tuple([x]))):
        assert not agrees(tvm.IRModule({"step": relax.Function([x], body, TENSOR)}))


def test_sizes_with_names_are_verified_as_a_whole() -> None:
    n = tirx.Var("n", "int64")
    named = relax.TensorType((n, 4), "float32")
    builder, x = relax.BlockBuilder(), relax.Var("x", named)
    with builder.function("step", [x]):
        value = x
        for _ in range(AROUND):
            value = builder.emit(relax.op.add(value, value))
        builder.emit_func_output(value)
    assert agrees(builder.get())


def test_types_are_verified_some_bindings_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[relax.Function] = []
    whole = relax.analysis.check_well_formed

    def noted(piece: relax.Function) -> bool:
        found.append(piece)
        return whole(piece)

    monkeypatch.setattr(verifying.relax.analysis, "check_well_formed", noted)
    verify(module_of(right))
    blocks = [len(block.bindings) for piece in found for block in piece.body.blocks]
    # What a sum reads is bound, too, where another piece has made it.
    assert len(blocks) > 2
    assert max(blocks) <= 2 * PIECE
