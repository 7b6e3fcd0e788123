"""Concats of the channels of images that have these last: pixel by pixel, in vectors.

TVM asks for each element which tensor it is of. Where channels are second these are whole planes,
so the test is outside of loops; where they are last it would be made for each lane.
"""

from collections.abc import Callable, Sequence

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of, stored
from odtc.backends.kernels.common.vectors import Index, each_block, ramp, vector_type
from odtc.backends.kernels.pool.planes import plane_kernel
from odtc.dialect.images import copies


def concat_last_rules(
    lanes: int,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        images = [stored(builder, image) for image in call.args]
        kinds = [str(image.ty.dtype) for image in images]
        kernel = concat_last([shape_of(each) for each in images], kinds, str(call.ty.dtype), lanes)
        name = builder.add_func(kernel, "concatenate")
        return relax.call_tir(name, relax.Tuple(images), call.ty)

    return {copies.concat_last.name: rule}


def concat_last(
    shapes: Sequence[Sequence[int]], stored_dtypes: Sequence[str], dtype: str, lanes: int
) -> tirx.PrimFunc:
    """A kernel of images and the result.

    Args:
        shapes: of the images, alike but for their channels, which are last.
        stored_dtypes: of the images.
        dtype: of the result.
        lanes: elements of a vector.
    """
    batch, rows, columns, _ = shapes[0]
    counts = [shape[3] for shape in shapes]

    def body(task: ir.Expr, *tensors: tirx.Buffer) -> None:
        *images, result = tensors
        n, row = task // rows, task % rows
        with T.serial(columns) as column:
            begin = 0
            for image, count in zip(images, counts, strict=True):

                def copy(
                    start: Index, width: int, image: tirx.Buffer = image, begin: int = begin
                ) -> None:
                    read = tirx.BufferLoad(image, [n, row, column, ramp(start, width)])
                    value = read.astype(vector_type(dtype, width))
                    T.buffer_store(result, value, [n, row, column, ramp(begin + start, width)])

                each_block(count, lanes, copy)
                begin += count

    kinds = zip(shapes, stored_dtypes, strict=True)
    arguments = {f"x{at}": (tuple(shape), kind) for at, (shape, kind) in enumerate(kinds)}
    arguments["y"] = ((batch, rows, columns, sum(counts)), dtype)
    return plane_kernel(batch * rows, arguments, body)
