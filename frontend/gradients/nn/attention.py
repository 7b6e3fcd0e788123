"""The gradient of attention, from its operands and result; a mask has none."""

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.core.ir.kernel_marks import ATTENTION
from odtc.dialect.rule import Rule
from odtc.frontend.relax_ops.attention import attention_backward


def attention(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Of queries, keys and values. What belongs to a query alone is read by nothing else."""
    dy = grad.fields[0] if isinstance(grad, relax.Tuple) else _field(builder, grad, 0)
    kept = [_field(builder, result, slot) for slot in range(3)]
    attrs = {name: call.attrs[name] for name in ("inner", "scale", "replaces", "safe")}
    q, k, v, *mask = call.args
    found = builder.emit(attention_backward(dy, q, k, v, *kept, *mask, **attrs))
    return [*(_field(builder, found, slot) for slot in range(3)), *map(no_grad, mask)]


def _field(builder: relax.BlockBuilder, results: relax.Expr, slot: int) -> relax.Var:
    return builder.emit(relax.TupleGetItem(results, slot))


RULES: dict[str, Rule] = {ATTENTION: attention}
