"""The operations of a kernel, counted from its loops."""

from functools import cache, cached_property

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from odtc.core.ir.matrix_calls import MULTIPLY, SIZE, name_of
from odtc.passes.checkpoint.stored_integers import StoredIntegers

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tirx.Select)
_COMPUTING = (tirx.BufferStore, tirx.Bind)
# Nothing bounds a loop of this length, or of a greater one; it counts once.
_UNKNOWN = (1 << 31) - 1
# A call is mostly a fused multiply-add.
_OF_CALL = 2


def operations(kernel: tirx.PrimFunc) -> int:
    """Floating-point operations of a kernel without blocks, of all elements of vectors.

    Both sides of a condition count, and the longest that a loop may be; once what runs until
    something comes true, or as often as data says. On a GPU those of all items, of a condition
    those of the longer side; an element that is taken of a vector does not compute that vector
    again.
    """
    return operations_in(kernel.body)


def operations_in(statement: tirx.Stmt) -> int:
    """The same of a statement that reads no names from around it."""
    return _Count(statement).of(statement)


class _Count:
    def __init__(self, statement: tirx.Stmt) -> None:
        self._statement = statement
        self._analyzer = Analyzer()
        # Loops around what is counted of which the analyzer does not know yet: most lengths are
        # constant, and ask for none.
        self._unbound: list[tirx.For] = []
        # Values that names are bound to.
        self._names: dict[ir.Var, ir.Expr] = {}
        # Axes of a GPU's items and groups around what is counted.
        self._axes: set[str] = set()

    @cached_property
    def _stored(self) -> StoredIntegers:
        return StoredIntegers(self._statement)

    def of(self, statement: tirx.Stmt) -> int:
        # Most statements are these.
        if isinstance(statement, _COMPUTING):
            if isinstance(statement, tirx.Bind):
                self._names[statement.var] = self._spelled_out(statement.value)
            return _in_expression(statement.value, in_launch=bool(self._axes))
        if isinstance(statement, tirx.SeqStmt):
            return sum(self.of(each) for each in statement)
        if isinstance(statement, tirx.For):
            return self._loop(statement)
        if isinstance(statement, tirx.IfThenElse):
            cases = (statement.then_case, statement.else_case)
            counts = [self.of(each) for each in cases if each is not None]
            # An item takes one of them, as where launches were merged.
            return max(counts) if self._axes else sum(counts)
        if isinstance(statement, tirx.AttrStmt):
            return self._launched(statement)
        is_loop = isinstance(statement, tirx.While)
        return self.of(statement.body) if is_loop else _of_matrices(statement)

    def _launched(self, statement: tirx.AttrStmt) -> int:
        """Operations of all of a GPU's items along an axis, where the statement binds one.

        Loops whose length depends on the item are as long as those of the one in the middle.
        """
        axis = str(statement.node.thread_tag) if statement.attr_key == "thread_extent" else ""
        if not axis:
            return self.of(statement.body)
        extent = self._longest(statement.value)
        self._names[statement.node.var] = tirx.IntImm(statement.node.var.ty.dtype, extent // 2)
        if axis in self._axes:
            return self.of(statement.body)
        self._axes.add(axis)
        inside = self.of(statement.body)
        self._axes.remove(axis)
        return extent * inside

    def _loop(self, loop: tirx.For) -> int:
        extent = self._longest(loop.extent)
        self._unbound.append(loop)
        inside = self.of(loop.body)
        if self._unbound:
            self._unbound.pop()
        return extent * inside

    def _longest(self, extent: ir.Expr) -> int:
        """Most iterations of a loop; 1 where nothing bounds it."""
        if isinstance(extent, tirx.IntImm):
            longest = extent.value
        else:
            for loop in self._unbound:
                span = self._known(loop.min), self._known(loop.extent)
                self._analyzer.bind(loop.loop_var, ir.Range.from_min_extent(*span))
            self._unbound.clear()
            longest = int(self._analyzer.const_int_bound(self._known(extent)).max_value)
        return max(0, longest) if longest < _UNKNOWN else 1

    def _known(self, expression: ir.Expr) -> ir.Expr:
        """What the analyzer can bound: without names, and without what is read from memory."""
        read = (ir.TensorLoad, lambda load: self._stored.element(load, self._analyzer))
        return tvm_ffi.structural_map(self._spelled_out(expression), read)

    def _spelled_out(self, expression: ir.Expr) -> ir.Expr:
        names = self._names
        return tvm_ffi.structural_map(expression, (ir.Var, lambda var: names.get(var, var)))


def _of_matrices(statement: tirx.Stmt) -> int:
    """Operations of an item in a product of its subgroup's matrices; 0 of anything else."""
    if not isinstance(statement, tirx.Evaluate) or name_of(statement.value) != MULTIPLY:
        return 0
    return 2 * SIZE**3 // int(statement.value.args[-1])


def _in_expression(expression: ir.Expr, *, in_launch: bool) -> int:
    if isinstance(expression, tirx.FloatImm | tirx.IntImm):
        return 0
    found = 0

    def add(each: ir.Expr) -> None:
        nonlocal found
        found += _lanes(each)

    def call(each: ir.Call) -> None:
        nonlocal found
        found += _OF_CALL * _lanes(each)

    def taken(each: tirx.Shuffle) -> None:
        nonlocal found
        found -= sum(_in_expression(vector, in_launch=True) for vector in each.vectors)

    visits = (_ARITHMETIC, add), (ir.Call, call)
    tvm_ffi.structural_walk(expression, (*visits, (tirx.Shuffle, taken)) if in_launch else visits)
    return found


def _lanes(expression: ir.Expr) -> int:
    """Elements of a floating-point vector; 0 of anything else, such as an index or an address."""
    if isinstance(expression.ty, ir.PointerType):
        return 0
    return _lanes_of(str(expression.ty.dtype))


@cache
def _lanes_of(dtype: str) -> int:
    return tvm_ffi.dtype(dtype).lanes if "float" in dtype else 0
