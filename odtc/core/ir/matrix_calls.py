"""Calls by which the subgroups of a GPU multiply matrices, and the memory of these.

All items of a subgroup make them together, with the same operands. A matrix is named by the memory
of an allocation, of which each `SIZE**2` elements are one, and by its number there:

    CLEAR     (sums, number)                                 zeros
    LOAD      (matrices, number, address, pitch, by columns) from memory that the group shares
    STORE     (sums, number, address, pitch, by columns)     to it
    MULTIPLY  (sums, number, left, number, right, number, items)   sums += left @ right

`items` is the size of a subgroup. TVM's own calls for this (`tvm_mma_sync` and its like) belong to
a pass for CUDA, which does not find the matrices that these kernels have.
"""

from typing import Any

# Rows, columns and terms of a matrix.
SIZE = 16
CLEAR, LOAD, STORE, MULTIPLY = (
    f"odtc_matrix_{what}" for what in ("clear", "load", "store", "multiply")
)
# Scopes of the memory, by what a matrix is in a product.
LEFT, RIGHT, SUMS = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"


def name_of(node: Any) -> str:
    """The name of such a call; empty for any other node."""
    arguments = getattr(node, "args", ())
    name = getattr(arguments[0], "value", None) if arguments else None
    return name if name in _NAMES else ""


_NAMES = (CLEAR, LOAD, STORE, MULTIPLY)
