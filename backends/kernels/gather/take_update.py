"""Plain gradient descent of those rows of a table that were read.

A row may be read often. Its adjoints are added up in the order of the indices, as the gradient of
the whole table would have them, and the sum is taken from the row once: no bit differs. So that
this takes no search, each index is linked to the next one of the same row; rows begin at the first.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.kernels.gather.take import CHUNK, loop_of, of_rows
from odtc.core.ir.mark_loss import is_not_finite, marked
from odtc.core.ir.update_marks import MARKS_LOSS

# After the last index of a row.
_END = -1


@T.inline
def _mark(loss, found):
    if found[0] != 0:
        loss[()] = marked(loss[()])


def take_update(rows: int, columns: int, count: int, index: str, factor: float) -> tirx.PrimFunc:
    """A kernel `(table [rows, columns], adjoint [count, columns], indices [count], rate, loss)`.

    The loss is marked where what is written is not finite.

    A thread has a range of columns to itself, so that rows that are read often burden all threads
    alike.

    Args:
        rows: of the table, which is changed.
        columns: of the table.
        count: indices; negative ones count from the end.
        index: dtype of the indices.
        factor: of the learning rate.
    """
    width = min(CHUNK, columns)
    chunks = -(-columns // width)
    loop = loop_of(count * columns)

    @parsed.prim_func(private=True, s_tir=True)
    def update_rows(
        table: T.Buffer((rows, columns), "float32"),
        adjoint: T.Buffer((count, columns), "float32"),
        indices: T.Buffer((count,), index),
        rate: T.Buffer((), "float32"),
        loss: T.Buffer((), "float32"),
    ):
        # Of each row that is read the first index, and of each index the next one of its row.
        first = T.sblock_alloc_buffer((rows,), "int32")
        following = T.sblock_alloc_buffer((count,), "int32")
        for n in T.serial(count):
            with T.sblock("begin"):
                i = T.axis.spatial(count, n)
                T.reads(indices[i])
                T.writes(first[0:rows])
                first[T.floormod(indices[i], rows)] = _END
        for n in T.serial(count):
            with T.sblock("link"):
                i = T.axis.opaque(count, n)
                T.reads(indices[0:count], first[0:rows])
                T.writes(first[0:rows], following[0:count])
                row = T.sblock_alloc_buffer((1,), index, scope="local")
                row[0] = T.floormod(indices[count - 1 - i], rows)
                following[count - 1 - i] = first[row[0]]
                first[row[0]] = T.cast(count - 1 - i, "int32")
        for chunk in loop(chunks):
            with T.sblock("chunk"):
                c = T.axis.spatial(chunks, chunk)
                T.reads(
                    table[0:rows, 0:columns],
                    adjoint[0:count, 0:columns],
                    indices[0:count],
                    rate[()],
                    first[0:rows],
                    following[0:count],
                )
                T.writes(table[0:rows, 0:columns], loss[()])
                total = T.sblock_alloc_buffer((width,), "float32", scope="local")
                at = T.sblock_alloc_buffer((1,), "int32", scope="local")
                row = T.sblock_alloc_buffer((1,), index, scope="local")
                begin = T.sblock_alloc_buffer((1,), "int64", scope="local")
                length = T.sblock_alloc_buffer((1,), "int64", scope="local")
                found = T.sblock_alloc_buffer((1,), "int32", scope="local")
                begin[0] = T.int64(width) * c
                length[0] = T.min(T.int64(width), columns - begin[0])
                found[0] = 0
                for n in range(count):
                    row[0] = T.floormod(indices[n], rows)
                    if first[row[0]] == n:
                        at[0] = T.cast(n, "int32")
                        while at[0] != _END:
                            for j in range(length[0]):
                                total[j] = (
                                    T.Select(at[0] == n, T.float32(0), total[j])
                                    + adjoint[at[0], begin[0] + j]
                                )
                            at[0] = following[at[0]]
                        for j in range(length[0]):
                            total[j] = (
                                table[row[0], begin[0] + j]
                                - (rate[()] * T.float32(factor)) * total[j]
                            )
                            table[row[0], begin[0] + j] = total[j]
                            found[0] = found[0] | T.cast(is_not_finite([total[j]]), "int32")
                _mark(loss, found)

    return of_rows(update_rows, rows, 4 * columns, count).with_attr(MARKS_LOSS, True)
