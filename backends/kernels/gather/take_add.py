"""The gradient of reading rows of a table, added to another gradient of the table in place."""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.kernels.gather.take import CHUNK, loop_of, of_rows


def take_add(rows: int, columns: int, count: int, index: str) -> tirx.PrimFunc:
    """A kernel `(total [rows, columns], adjoint [count, columns], indices [count])`.

    A thread has a range of columns to itself and adds in the order of the indices.

    Args:
        rows: of the table, whose gradient `total` is changed.
        columns: of the table.
        count: indices; negative ones count from the end.
        index: dtype of the indices.
    """
    width = min(CHUNK, columns)
    chunks = -(-columns // width)
    loop = loop_of(count * columns)

    @parsed.prim_func(private=True, s_tir=True)
    def add_rows(
        total: T.Buffer((rows, columns), "float32"),
        adjoint: T.Buffer((count, columns), "float32"),
        indices: T.Buffer((count,), index),
    ):
        for chunk in loop(chunks):
            with T.sblock("chunk"):
                c = T.axis.spatial(chunks, chunk)
                T.reads(total[0:rows, 0:columns], adjoint[0:count, 0:columns], indices[0:count])
                T.writes(total[0:rows, 0:columns])
                first = T.sblock_alloc_buffer((1,), "int64", scope="local")
                length = T.sblock_alloc_buffer((1,), "int64", scope="local")
                row = T.sblock_alloc_buffer((1,), index, scope="local")
                first[0] = T.int64(width) * c
                length[0] = T.min(T.int64(width), columns - first[0])
                for n in range(count):
                    row[0] = T.floormod(indices[n], rows)
                    for i in range(length[0]):
                        total[row[0], first[0] + i] = (
                            total[row[0], first[0] + i] + adjoint[n, first[0] + i]
                        )

    return of_rows(add_rows, rows, 4 * columns, count)
