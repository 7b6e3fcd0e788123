"""Dropout by a counter-based generator: a mask is computed where it is used, and never stored.

Whether an element is kept follows from the seed, the step, the node and the element's index alone,
through Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). So the
backward computes the same mask again, in any order and on any number of threads, and a step can be
replayed.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN
from odtc.dialect.draw.dropout import dropout

# Philox: the two multipliers, and what the key grows by from round to round.
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORDS = 4

# Calls of the generator in a chunk, at most so many chunks, and none for fewer calls than that.
MAX_CHUNKS = 64
PARALLEL_CALLS = 1 << 12


def dropout_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {dropout.name: _lower}


def dropout_kernel(size: int, ratio: float, stream: int, seed: int) -> tirx.PrimFunc:
    """A kernel `(x, step, y)`: zero with probability `ratio`, else `x / (1 - ratio)`.

    The four words of call c of the generator are for the elements c, c + q, c + 2q and c + 3q,
    where q is a quarter of the size: so neighbours are computed side by side in vector lanes.

    Args:
        size: elements of `x` and `y`, float32; `step` is an int32 scalar.
        ratio: in [0, 1).
        stream: number of the node; each has a mask of its own.
        seed: below 2**63.
    """
    calls = -(-size // WORDS)
    chunks = min(MAX_CHUNKS, calls) if calls >= PARALLEL_CALLS else 1
    per_chunk = -(-calls // chunks)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    bound = min(round(ratio * 2**32), 2**32 - 1)
    scale, zero = (tirx.const(each, "float32") for each in (1 / (1 - ratio), 0.0))
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("dropout")
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            x, step, y = (
                T.arg(name, T.buffer(shape, dtype))
                for name, shape, dtype in (
                    ("x", (size,), "float32"),
                    ("step", (), "int32"),
                    ("y", (size,), "float32"),
                )
            )
            loop = T.parallel if chunks > 1 else T.serial
            with loop(chunks) as chunk, T.serial(per_chunk) as position:
                call = chunk * per_chunk + position
                with T.If(call < calls), T.Then():
                    counter = [call, tirx.BufferLoad(step, []), stream, 0]
                    for word, value in enumerate(philox(counter, key, T.Bind)):
                        at = call + word * calls
                        # A product, so that what is not a number stays so where it is dropped.
                        kept = x[at] * tirx.Select(value >= _u32(bound), scale, zero)
                        if (word + 1) * calls <= size:
                            T.buffer_store(y, kept, [at])
                        else:
                            with T.If(at < size), T.Then():
                                T.buffer_store(y, kept, [at])
        return builder.get()


def philox(
    counter: Sequence[ir.Expr | int], key: Sequence[int], bind: Callable[[ir.Expr], ir.Expr]
) -> list[ir.Expr]:
    """The four uint32 words for a counter of four words and a key of two; `bind` names a value."""
    words = [_u32(word) for word in counter]
    for number in range(ROUNDS):
        low, high = (
            _u32((part + number * grow) & 0xFFFFFFFF) for part, grow in zip(key, WEYL, strict=True)
        )
        (high0, low0), (high1, low1) = (
            _product(words[at], factor, bind)
            for at, factor in zip((0, 2), MULTIPLIERS, strict=True)
        )
        words = [bind(high1 ^ words[1] ^ low), low1, bind(high0 ^ words[3] ^ high), low0]
    return words


def _product(
    word: ir.Expr, factor: int, bind: Callable[[ir.Expr], ir.Expr]
) -> tuple[ir.Expr, ir.Expr]:
    """The upper and lower half of a 64-bit product."""
    wide = bind(word.astype("uint64") * tirx.const(factor, "uint64"))
    low = wide & tirx.const(0xFFFFFFFF, "uint64")
    return (wide >> tirx.const(32, "uint64")).astype("uint32"), low.astype("uint32")


def _u32(value: ir.Expr | int) -> ir.Expr:
    return tirx.const(value, "uint32") if isinstance(value, int) else value.astype("uint32")


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, step = call.args
    shape = shape_of(data)
    size = math.prod(shape)
    mask = dropout.read(call)
    kernel = dropout_kernel(size, mask.ratio, mask.stream, mask.seed)
    name = builder.add_func(kernel, "dropout")
    flat = builder.emit(relax.op.reshape(data, (size,)))
    operands = relax.Tuple([flat, step])
    masked = relax.call_tir(name, operands, relax.TensorType((size,), "float32"))
    return relax.op.reshape(builder.emit(masked), shape)
