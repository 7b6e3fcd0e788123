"""Vectors of elements in a kernel that is written by hand, and loops over rows of them."""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

Index = ir.Expr | int


def ramp(start: Index, width: int) -> ir.Expr:
    """Indices of `width` elements that follow each other."""
    return start if width == 1 else tirx.Ramp(start, 1, width)


def further(at: ir.Expr, steps: Index) -> ir.Expr:
    """An index, or those of elements that follow each other, so many steps further on."""
    return ramp(at.base + steps, at.lanes) if isinstance(at, tirx.Ramp) else at + steps


def splat(value: ir.Expr, width: int) -> ir.Expr:
    """A scalar in all elements of a vector; a vector as it is."""
    return value if width == value.ty.dtype.lanes else tirx.Broadcast(value, width)


def vector_type(dtype: str, width: int) -> str:
    """Name of the type of a vector."""
    return dtype if width == 1 else f"{dtype}x{width}"


def deinterleave(vector: ir.Expr, ways: int, width: int) -> list[ir.Expr]:
    """A vector of `ways * width` elements into one of each `ways`-th element, from each start."""
    if ways == 1:
        return [vector]
    return [_shuffle([vector], range(way, ways * width, ways)) for way in range(ways)]


def interleave(vectors: Sequence[ir.Expr], width: int) -> ir.Expr:
    """The vector that `deinterleave` takes apart."""
    ways = len(vectors)
    if ways == 1:
        return vectors[0]
    return _shuffle(vectors, [way * width + lane for lane in range(width) for way in range(ways)])


def joined(first: ir.Expr, second: ir.Expr, shift: int, width: int) -> ir.Expr:
    """The vector that begins so many elements behind the start of two that follow each other."""
    if shift in (0, width):
        return second if shift else first
    return _shuffle([first, second], range(shift, shift + width))


def lane_total(vector: ir.Expr, width: int) -> ir.Expr:
    """Emits the sum of a vector's elements: its halves, of which each is added to the other."""
    while width > 1:
        whole, width = T.Bind(vector), width // 2
        vector = _shuffle([whole], range(width)) + _shuffle([whole], range(width, 2 * width))
    return vector


def _shuffle(vectors: Sequence[ir.Expr], order: Sequence[int]) -> ir.Expr:
    """Elements of vectors, counted through, in an order."""
    return tirx.Shuffle(list(vectors), [tirx.const(index, "int32") for index in order])


def each_part(length: int, lanes: int, emit: Callable[[Index, int, int], None]) -> None:
    """Emits `emit(start, width, known)` for vectors that cover a row.

    The last one overlaps the one before by `known` elements, so that no element is left to a scalar
    loop: LLVM would vectorise the loop around that, with gathers.
    """
    if not length:
        return
    width = widest(length, lanes)
    if length // width > 1:
        with T.serial(0, length // width) as block:
            emit(block * width, width, 0)
    else:
        emit(0, width, 0)
    if length % width:
        emit(length - width, width, width - length % width)


def widest(length: int, lanes: int) -> int:
    """Elements of the vectors that cover a row."""
    return min(lanes, 1 << (length.bit_length() - 1))


def each_block(length: int, lanes: int, emit: Callable[[Index, int], None]) -> None:
    """Emits `emit(start, width)` for vectors that cover a row; some elements are in two of them."""
    each_part(length, lanes, lambda start, width, _: emit(start, width))


def each_vector(count: int, lanes: int, emit: Callable[[Index], None]) -> None:
    """Emits `emit(start)` for `count` full vectors."""
    with T.serial(0, count) as vector:
        emit(vector * lanes)
