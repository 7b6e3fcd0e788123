"""An update kernel that changes a block of a parameter where it lies, and nothing else."""

from collections.abc import Sequence

from tvm import ir, s_tir, tirx

from odtc.core.specs import Block


def on_block(
    kernel: tirx.PrimFunc, places: Sequence[int], shape: tuple[int, ...], block: Block
) -> tirx.PrimFunc:
    """The same update, some of whose arguments are whole tensors.

    The kernel's own buffers for these become views of the block: TVM's match_buffer, which lowers
    to indices into the whole tensor. So it needs no dense block, and no copy.

    Args:
        kernel: of tensors of the block's shape; offsets of its buffers must be free.
        places: of these arguments.
        shape: of the whole tensors.
        block: the part that the kernel changes.
    """
    region = [ir.Range.from_min_extent(0, size) for size in shape]
    region[block.axis] = ir.Range.from_min_extent(block.start, block.size)
    params, views = list(kernel.params), []
    for place in places:
        view = params[place]
        params[place] = tirx.decl_buffer(shape, view.dtype, view.name)
        part = tirx.BufferRegion(params[place], region)
        views.append(s_tir.stmt.MatchBufferRegion(view, part))
    root = kernel.body.block
    matched = s_tir.stmt.SBlock(
        [], [], [], root.name_hint, root.body, None, root.alloc_buffers, views
    )
    body = s_tir.stmt.SBlockRealize([], True, matched)
    return tirx.PrimFunc(params, body, kernel.ret_type, kernel.attrs)
