"""Whether a kernel stores each element of its result once.

Kernels store all elements of a result, so it is enough to count stores: tiles that reach back over
others make them more.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

# Iterations that are looked at one by one, as bounds depend on them; a kernel that needs more is
# not followed.
_MOST = 1 << 16
_BINARY: dict[type, Callable[[Any, Any], int]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: min,
    tirx.Max: max,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.And: lambda left, right: left and right,
}


class _UnknownError(Exception):
    """Something that is not followed."""


@dataclass(frozen=True)
class _Loop:
    """A loop around stores.

    Attributes:
        loop: it.
        body: what stores in it.
        depends: whether bounds or conditions in the body depend on its variable.
    """

    loop: tirx.For
    body: Sequence["_Node"]
    depends: bool


@dataclass(frozen=True)
class _Choice:
    """A condition around stores, and what stores in either case."""

    condition: ir.Expr
    cases: tuple[Sequence["_Node"], Sequence["_Node"]]


# What stores: how many elements, or what is around it.
_Node = int | _Loop | _Choice


def is_stored_once(kernel: tirx.PrimFunc, result: ir.Var) -> bool:
    """Whether a kernel stores each element of a result once; False where that is not known.

    Args:
        kernel: without blocks.
        result: the parameter that it stores to.
    """
    try:
        stores = _Count(kernel.body, result).stores
    except _UnknownError:
        return False
    return stores == math.prod(int(size) for size in result.shape)


class _Count:
    """The stores of a kernel.

    Attributes:
        stores: elements that it stores to a parameter.
    """

    def __init__(self, body: tirx.Stmt, result: ir.Var) -> None:
        self._result = result
        # What names are bound to.
        self._names: dict[ir.Var, ir.Expr] = {}
        tvm_ffi.structural_walk(body, (tirx.Bind, self._bind))
        self._left = _MOST
        nodes, _ = self._nodes(body)
        self.stores = self._of(nodes, {})

    def _bind(self, statement: tirx.Bind) -> None:
        self._names[statement.var] = statement.value

    def _nodes(self, statement: tirx.Stmt) -> tuple[list[_Node], set[ir.Var]]:
        """The stores in a statement, and the variables that bounds and conditions depend on."""
        if isinstance(statement, tirx.BufferStore):
            is_result = statement.buffer.same_as(self._result)
            return ([int(statement.value.ty.dtype.lanes)] if is_result else []), set()
        if isinstance(statement, tirx.SeqStmt):
            each = [self._nodes(inner) for inner in statement]
            return [node for nodes, _ in each for node in nodes], set().union(*(h for _, h in each))
        if isinstance(statement, tirx.For):
            body, hanging = self._nodes(statement.body)
            bounds = (statement.min, statement.extent)
            found: list[_Node] = [_Loop(statement, body, statement.loop_var in hanging)]
        elif isinstance(statement, tirx.IfThenElse):
            bounds = (statement.condition,)
            cases = (statement.then_case, statement.else_case)
            then, otherwise = ([] if each is None else [self._nodes(each)] for each in cases)
            body = [node for nodes, _ in (*then, *otherwise) for node in nodes]
            hanging = set().union(*(h for _, h in (*then, *otherwise)))
            nodes = [[node for inner, _ in case for node in inner] for case in (then, otherwise)]
            found = [_Choice(statement.condition, (nodes[0], nodes[1]))]
        elif _names(statement, self._result):
            raise _UnknownError
        else:
            return [], set()
        return (found, hanging.union(*map(self._variables, bounds))) if body else ([], set())

    def _variables(self, expression: ir.Expr) -> set[ir.Var]:
        """The variables of an expression, and of what these are bound to."""
        found: set[ir.Var] = set()
        pending = [expression]
        while pending:
            new: list[ir.Var] = []
            tvm_ffi.structural_walk(pending.pop(), (ir.Var, new.append))
            pending += [self._names[v] for v in new if v not in found and v in self._names]
            found.update(new)
        return found

    def _of(self, nodes: Sequence[_Node], at: Mapping[ir.Var, int]) -> int:
        return sum(node if isinstance(node, int) else self._around(node, at) for node in nodes)

    def _around(self, node: _Loop | _Choice, at: Mapping[ir.Var, int]) -> int:
        if isinstance(node, _Choice):
            then, otherwise = node.cases
            return self._of(then if self._value(node.condition, at) else otherwise, at)
        first, extent = (self._value(each, at) for each in (node.loop.min, node.loop.extent))
        if extent <= 0:
            return 0
        if not node.depends:
            return extent * self._of(node.body, at)
        self._left -= extent
        if self._left < 0:
            raise _UnknownError
        values = ({**at, node.loop.loop_var: value} for value in range(first, first + extent))
        return sum(self._of(node.body, each) for each in values)

    def _value(self, expression: ir.Expr, at: Mapping[ir.Var, int]) -> int:
        """The value of an expression, given those of loops' variables."""
        if isinstance(expression, tirx.IntImm):
            return int(expression.value)
        if isinstance(expression, ir.Var) and expression in at:
            return at[expression]
        if isinstance(expression, ir.Var) and expression in self._names:
            return self._value(self._names[expression], at)
        compute = _BINARY.get(type(expression))
        if compute is None:
            raise _UnknownError
        return compute(self._value(expression.a, at), self._value(expression.b, at))


def _names(statement: tirx.Stmt, variable: ir.Var) -> bool:
    """Whether a statement names a variable."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(statement, (ir.Var, found.append))
    return any(each.same_as(variable) for each in found)
