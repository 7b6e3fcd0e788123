"""The ranges of integers that a kernel keeps in memory of its own.

Attention keeps which keys a mask leaves, the gradient of an embedding how many columns a task has:
loops run as long as these say.
"""

from collections import defaultdict
from collections.abc import Iterator

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer, ConstIntBound

_ANY = ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)


class StoredIntegers:
    """The ranges of integers that a statement stores, wherever and whenever it does.

    Args:
        statement: without blocks, and without names from around it.
    """

    def __init__(self, statement: tirx.Stmt) -> None:
        self._analyzer = Analyzer()
        self._loops: dict[ir.Var, tuple[ir.Expr, ir.Expr]] = {}
        self._names: dict[ir.Var, ir.Expr] = {}
        self._own: set[ir.Var] = set()
        self._stored: defaultdict[ir.Var, list[ir.Expr]] = defaultdict(list)
        # What is known by now: buffers' ranges, and variables that the analyzer was told of.
        self._ranges: dict[ir.Var, ConstIntBound] = {}
        self._told: set[ir.Var] = set()
        walked = (
            (tirx.For, lambda each: self._loops.update({each.loop_var: (each.min, each.extent)})),
            (tirx.AttrStmt, self._axis),
            (tirx.Bind, lambda each: self._names.update({each.var: each.value})),
            (tirx.AllocBuffer, lambda each: self._own.add(each.buffer)),
            (tirx.BufferStore, lambda each: self._stored[each.buffer].append(each.value)),
        )
        tvm_ffi.structural_walk(statement, walked)

    def _axis(self, statement: tirx.AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            self._loops[statement.node.var] = tirx.IntImm("int32", 0), statement.value

    def range_of(self, buffer: ir.Var) -> ConstIntBound:
        """The range of a buffer's elements: infinite where one is data, or counts something."""
        if buffer not in self._ranges:
            # What is stored may depend on what was stored before.
            self._ranges[buffer] = _ANY
            self._ranges[buffer] = self._union(buffer) if buffer in self._own else _ANY
        return self._ranges[buffer]

    def _union(self, buffer: ir.Var) -> ConstIntBound:
        """The range of all that is stored."""
        added = (each for value in self._stored[buffer] for each in _added(value, buffer))
        ranges = [self._bound(each) for each in added]
        low = min((each.min_value for each in ranges), default=ConstIntBound.NEG_INF)
        high = max((each.max_value for each in ranges), default=ConstIntBound.POS_INF)
        return ConstIntBound(low, high)

    def _bound(self, expression: ir.Expr) -> ConstIntBound:
        tvm_ffi.structural_walk(expression, (ir.Var, self._tell))
        read = (ir.TensorLoad, lambda load: self.element(load, self._analyzer))
        return self._analyzer.const_int_bound(tvm_ffi.structural_map(expression, read))

    def _tell(self, variable: ir.Var) -> None:
        """Tells the analyzer of a loop or a name."""
        if variable in self._told:
            return
        self._told.add(variable)
        if variable in self._loops:
            low, extent = map(self._bound, self._loops[variable])
            high = min(low.max_value + max(extent.max_value - 1, 0), ConstIntBound.POS_INF)
            bound = ConstIntBound(low.min_value, high)
        else:
            bound = self._bound(self._names[variable]) if variable in self._names else _ANY
        self._analyzer.update(variable, bound)

    def element(self, load: ir.TensorLoad, analyzer: Analyzer) -> ir.Var:
        """A variable in place of what is read, whose range an analyzer is told."""
        made = tirx.Var("element", load.ty.dtype)
        analyzer.update(made, self.range_of(load.source))
        return made


def _added(value: ir.Expr, buffer: ir.Var) -> Iterator[ir.Expr]:
    """What a store adds to a buffer's range: what it chooses from beside the buffer's elements."""
    if not _reads(value, buffer):
        yield value
    elif isinstance(value, tirx.Select):
        yield from _added(value.true_value, buffer)
        yield from _added(value.false_value, buffer)
    elif isinstance(value, tirx.Min | tirx.Max):
        yield from _added(value.a, buffer)
        yield from _added(value.b, buffer)
    elif not (isinstance(value, ir.TensorLoad) and value.source.same_as(buffer)):
        yield value


def _reads(value: ir.Expr, buffer: ir.Var) -> bool:
    loads: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    return any(each.source.same_as(buffer) for each in loads)
