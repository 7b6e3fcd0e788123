"""Random numbers by the counter-based generator of dropout: made where they are used.

A number follows from the seed, the step, the node and the element's index alone, so that a step can
be replayed, on any target and any number of threads.
"""

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.draw.dropout import MAX_CHUNKS, PARALLEL_CALLS, WORDS, philox
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN
from odtc.dialect.draw.random import random

# The last word of the counter: dropout has 0 there, so no node shares a stream with one of it.
_KIND = 1
# A float32 holds so many bits: all that are drawn differ from 1.
_BITS = 24


def random_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {random.name: _lower}


def random_kernel(size: int, keep: float, stream: int, seed: int) -> tirx.PrimFunc:
    """A kernel `(step, y)`: uniform numbers in [0, 1), or a mask of zeros and ones.

    The four words of a call lie as in `dropout_kernel`.

    Args:
        size: elements of `y`, float32; `step` is an int32 scalar.
        keep: the share of ones in a mask, in (0, 1]; 0 for numbers.
        stream: number of the node; each has numbers of its own.
        seed: below 2**63.
    """
    calls = -(-size // WORDS)
    chunks = min(MAX_CHUNKS, calls) if calls >= PARALLEL_CALLS else 1
    per_chunk = -(-calls // chunks)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("random")
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            step = T.arg("step", T.buffer((), "int32"))
            y = T.arg("y", T.buffer((size,), "float32"))
            loop = T.parallel if chunks > 1 else T.serial
            # Passes that look for copies of one tensor want a block.
            with T.sblock("numbers"):
                T.reads(step[()])
                T.writes(y[0:size])
                with loop(chunks) as chunk, T.serial(per_chunk) as position:
                    call = chunk * per_chunk + position
                    with T.If(call < calls), T.Then():
                        counter = [call, tirx.BufferLoad(step, []), stream, _KIND]
                        for word, value in enumerate(philox(counter, key, T.Bind)):
                            at = call + word * calls
                            with T.If(at < size), T.Then():
                                T.buffer_store(y, _element(value, keep), [at])
        return builder.get()


def _element(word: ir.Expr, keep: float) -> ir.Expr:
    """Converts a random word to an element: a number in [0, 1), or a mask of those below `keep`."""
    bits = tirx.shift_right(word, tirx.const(32 - _BITS, "uint32"))
    if keep:
        bound = tirx.const(round(keep * 2**_BITS), "uint32")
        return tirx.Select(bits < bound, tirx.const(1.0, "float32"), tirx.const(0.0, "float32"))
    return bits.astype("float32") * tirx.const(2.0**-_BITS, "float32")


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    numbers = random.read(call)
    shape, size = list(numbers.shape), math.prod(numbers.shape)
    kernel = random_kernel(size, numbers.keep, numbers.stream, numbers.seed)
    name = builder.add_func(kernel, "random")
    operands = relax.Tuple([call.args[0]])
    drawn = relax.call_tir(name, operands, relax.TensorType((size,), "float32"))
    return relax.op.reshape(builder.emit(drawn), shape)
