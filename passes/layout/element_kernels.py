"""Kernels that map elements of images, whichever layout these have."""

import tvm_ffi
from tvm import ir, s_tir, tirx

from odtc.dialect.channels_last import IMAGE


def maps_elements(kernel: tirx.PrimFunc) -> bool:
    """Whether each block of a kernel reads images only where it writes one."""
    if not isinstance(kernel.body, s_tir.SBlockRealize):
        return False
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, blocks.append))
    return all(map(_is_map, [each for each in blocks if each.iter_vars]))


def _is_map(block: s_tir.SBlock) -> bool:
    own = [axis.var for axis in block.iter_vars]
    reads: list[ir.TensorLoad] = []
    if not isinstance(block.body, tirx.BufferStore):
        return False
    tvm_ffi.structural_walk(block.body.value, (ir.TensorLoad, reads.append))
    indices = [list(block.body.indices), *(list(each.indices) for each in reads)]
    return len(own) == IMAGE and all(
        not at or (len(at) == len(own) and all(a.same_as(b) for a, b in zip(at, own, strict=True)))
        for at in indices
    )


def permuted_kernel(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that maps elements of images, for images that have their channels last."""
    schedule = s_tir.Schedule(kernel)
    done: set[ir.Var] = set()

    def last(n: ir.Expr, c: ir.Expr, h: ir.Expr, w: ir.Expr) -> tuple[ir.Expr, ...]:
        return n, h, w, c

    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        for kind in ("read", "write"):
            for place in range(len(getattr(schedule.get(block), f"{kind}s"))):
                source = getattr(schedule.get(block), f"{kind}s")[place].source
                if len(source.shape) == IMAGE and source not in done:
                    schedule.transform_layout(block, (kind, place), last)
                    done.add(getattr(schedule.get(block), f"{kind}s")[place].source)
        schedule.transform_block_layout(block, last)
    made = schedule.mod["main"]
    return made.with_attrs(kernel.attrs) if kernel.attrs else made
