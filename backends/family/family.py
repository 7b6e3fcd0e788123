"""The type of what differs between kinds of targets in lowering."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tvm import relax

from odtc.backends.write_products import WriteProducts
from odtc.passes.contract import Pass
from odtc.passes.ir.written_out import Grown
from odtc.passes.kernel.keep_nan import NanGuard

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


@dataclass(frozen=True)
class Family:
    """A kind of target.

    Attributes:
        rewrites: of operators that the family has no kernel for, or one kernel for several.
        rules: legalisation rules, by operator.
        products: the pass that writes the loops of products, for the machine that it has.
        blocks: what lowers blocks to loops, and binds these.
        workspaces: what takes the allocations out of kernels.
        offsets: what lets tensors begin anywhere in the arena.
        slots: threads that may each need a workspace.
        keeps_nan: what an extremum of floats becomes, so that it keeps what is not a number.
        compiling: a context in which TVM generates the code.
        apart: whether kernels may be compiled one by one, side by side.
        offset_bits: in which kernels count the elements of an arena.
        halves: what has kernels compute in float32 that hold float16 in memory.
        hides: what keeps LLVM's vectoriser from reading behind a period.
        checks: of kernels as they are launched, which nothing changes any more.
        update_buffers: of a launch for several updates; None where each is a call of its own.
        most_fused: operators of a fused kernel; None for any number.
        grown: what calls of functions become in a kernel, where they are no calls any more.
        most_copies: of a normalised tensor, which kernels make as they read it, in place of one in
            memory; 0 where none does.
        writes_over: whether gradients are written over what their calls read last.
    """

    rewrites: tuple[Pass, ...]
    rules: Mapping[str, Rule]
    products: WriteProducts
    blocks: tuple[Pass, ...]
    workspaces: Pass
    offsets: Pass
    slots: int
    keeps_nan: NanGuard
    compiling: Callable[[], AbstractContextManager[None]] = nullcontext
    apart: bool = False
    offset_bits: int = 64
    halves: tuple[Pass, ...] = ()
    hides: tuple[Pass, ...] = ()
    checks: tuple[Pass, ...] = ()
    update_buffers: int | None = None
    most_fused: int | None = None
    grown: Grown = field(default_factory=dict)
    most_copies: int = 0
    writes_over: bool = False
