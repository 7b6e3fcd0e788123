"""Finds the arguments of a kernel that each of its results depends on.

A batch normalisation reads running statistics, but only new running statistics depend on them: its
other results are the same whenever it runs.
"""

from collections import defaultdict
from collections.abc import Iterator

import tvm_ffi
from tvm import ir, tirx


def dependence(kernel: tirx.PrimFunc) -> dict[ir.Var, frozenset[ir.Var]]:
    """For each argument that a kernel writes those that it reads for it; itself, if need be.

    Args:
        kernel: without blocks.
    """
    direct: defaultdict[ir.Var, set[ir.Var]] = defaultdict(set)
    for written, read in _edges(kernel.body, frozenset()):
        direct[written] |= read
    arguments = set(kernel.params)
    return {
        each: frozenset(_reached(each, direct) & arguments)
        for each in kernel.params
        if each in direct
    }


def _reached(start: ir.Var, direct: dict[ir.Var, set[ir.Var]]) -> set[ir.Var]:
    found: set[ir.Var] = set()
    pending = [start]
    while pending:
        new = direct.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _edges(
    statement: tirx.Stmt, condition: frozenset[ir.Var]
) -> Iterator[tuple[ir.Var, frozenset[ir.Var]]]:
    """Yields each buffer that is written, with all that its value, index or condition reads."""
    if isinstance(statement, tirx.BufferStore):
        read = _read(statement.value).union(*map(_read, statement.indices))
        yield statement.buffer, read | condition
    elif isinstance(statement, tirx.SeqStmt):
        for each in statement:
            yield from _edges(each, condition)
    elif isinstance(statement, tirx.For):
        bounds = _read(statement.min) | _read(statement.extent)
        yield from _edges(statement.body, condition | bounds)
    elif isinstance(statement, tirx.IfThenElse):
        condition |= _read(statement.condition)
        for each in (statement.then_case, statement.else_case):
            if each is not None:
                yield from _edges(each, condition)
    elif isinstance(statement, tirx.AllocBuffer):
        return
    else:
        # Whatever else there is may write all that it names.
        named: list[ir.Var] = []
        tvm_ffi.structural_walk(statement, (ir.Var, named.append))
        for each in named:
            yield each, frozenset(named) | condition


def _read(expression: ir.Expr) -> frozenset[ir.Var]:
    """Buffers that an expression reads, and variables: one may be bound to what was read."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(expression, (ir.Var, found.append))
    return frozenset(found)
