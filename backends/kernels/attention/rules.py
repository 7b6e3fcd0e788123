"""Attention as one kernel forward and one backward, neither of which keeps its probabilities."""

from collections.abc import Callable, Sequence

from tvm import relax, tirx

from odtc.backends.kernels.attention.backward import attention_gradient
from odtc.backends.kernels.attention.forward import attention_kernel
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.common.operand import call_kernel, shape_of, stored
from odtc.backends.kernels.product.tile import Machine
from odtc.dialect.attributes import read_as
from odtc.dialect.sequences.attention import Scores, attention, attention_backward

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
Forward = Callable[[Heads], tirx.PrimFunc]
# The dtypes are those of queries, keys, values and the result, as stored.
Backward = Callable[[Heads, Sequence[str]], tirx.PrimFunc]


def attention_rules(machine: Machine) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps` on a CPU, by operator."""
    return rules_of_kernels(
        lambda heads: attention_kernel(heads, machine),
        lambda heads, dtypes: attention_gradient(heads, dtypes, machine),
    )


def rules_of_kernels(forward: Forward, backward: Backward) -> dict[str, Rule]:
    """Such rules, for kernels with the arguments of those of a CPU."""
    return {
        attention.name: lambda builder, call: _lower_forward(builder, call, forward),
        attention_backward.name: lambda builder, call: _lower_backward(builder, call, backward),
    }


def heads_of(call: relax.Call) -> Heads:
    """Sizes and layout of an attention, from it or from its gradient."""
    operands = call.args
    if call.op.name == attention_backward.name:
        operands = [*operands[1:4], *operands[7:]]
    return _heads(call, *operands)


def _lower_forward(builder: relax.BlockBuilder, call: relax.Call, made: Forward) -> relax.Expr:
    return call_kernel(builder, made(heads_of(call)), "attention", call, list(call.args))


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call, made: Backward) -> relax.Expr:
    dy, q, k, v, out, top, share, *mask = call.args
    q, k, v, out = (stored(builder, each) for each in (q, k, v, out))
    dtypes = [str(each.ty.dtype) for each in (q, k, v, out)]
    operands = [dy, q, k, v, out, top, share, *mask]
    kernel = made(heads_of(call), dtypes)
    return call_kernel(builder, kernel, "attention_gradient", call, operands)


def _heads(
    call: relax.Call, q: relax.Expr, k: relax.Expr, v: relax.Expr, *mask: relax.Expr
) -> Heads:
    said = read_as(Scores, call)
    inner = said.inner
    (batch, *q_sizes), k_sizes, v_sizes = shape_of(q), shape_of(k)[1:], shape_of(v)[1:]
    # Steps lie in front of the heads, or after them.
    queries, heads, width = q_sizes if inner[0] else (q_sizes[1], q_sizes[0], q_sizes[2])
    return Heads(
        batch=batch,
        heads=heads,
        queries=queries,
        keys=k_sizes[0 if inner[1] else 1],
        width=width,
        depth=v_sizes[2],
        inner=(inner[0], inner[1], inner[2], inner[3]),
        mask=tuple(size for each in mask for size in shape_of(each)),
        scale=said.scale,
        replaces=said.replaces,
        safe=said.safe,
    )
