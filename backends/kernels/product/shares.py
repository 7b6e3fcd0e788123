"""Sums whose terms tasks share: what each task found is added up in the order of the tasks.

So a product of few results has tasks for all cores, and the same bits come out each time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors, index
from odtc.backends.kernels.common.vectors import each_block, ramp
from odtc.backends.kernels.product.tile import Machine

# Shares that are worth a trial.
_MOST = 16
# From a row and a column to the index of an element; takes a vector of columns, too.
Place = Callable[[ir.Expr, ir.Expr], list[ir.Expr]]


@dataclass(frozen=True)
class SharedSums:
    """Where tasks put their sums: at once to their place, or one share after the other.

    Attributes:
        target: of what tasks find.
        place: of a result in what is wanted.
        wanted: the sums of all.
    """

    target: tirx.Buffer
    place: Place
    wanted: tirx.Buffer

    def at(self, share: ir.Expr, i: ir.Expr, j: ir.Expr) -> list[ir.Expr]:
        """The index in the target of what a share adds up to."""
        return self.place(i, j) if self.target is self.wanted else [share, i, j]

    def join(self, lanes: int) -> None:
        """Emits the sums over shares, if there are several."""
        if self.target is self.wanted:
            return
        shares, rows, columns = (int(size) for size in self.target.shape)
        with T.parallel(index(rows)) as i:

            def put(begin: ir.Expr | int, width: int) -> None:
                at = ramp(begin, width)
                terms = [tirx.BufferLoad(self.target, [index(t), i, at]) for t in range(shares)]
                T.buffer_store(self.wanted, total(terms), self.place(i, at))

            each_block(columns, lanes, put)


def results_of(shares: int, shape: Sequence[int], wanted: tirx.Buffer, place: Place) -> SharedSums:
    """Room for what so many shares add up to: rows by columns each."""
    if shares == 1:
        return SharedSums(wanted, place, wanted)
    return SharedSums(T.sblock_alloc_buffer((shares, *shape), "float32"), place, wanted)


def total(terms: Sequence[ir.Expr]) -> ir.Expr:
    """The sum of terms, in pairs, so that none waits for all before it."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return total(terms[:half]) + total(terms[half:])


def shares_of(blocks: int, tasks: int, results: int, machine: Machine) -> int:
    """Shares of so many blocks, all alike: as many as make tasks for all cores.

    Args:
        blocks: that are shared.
        tasks: that there are of each share.
        results: of each.
        machine: the CPU.
    """
    alike = divisors(blocks)
    most = 2 * machine.cache_bytes // (4 * results)
    possible = [n for n in alike if n <= most] or [1]
    usual = next((n for n in possible if n * tasks >= machine.tasks), possible[-1])
    others = [(n,) for n in alike if n <= _MOST]
    (shares,) = machine.decide("shares", others, (usual,))
    return shares
