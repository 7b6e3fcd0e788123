"""Gives kernels of plain loops the threads of a GPU.

A kernel that was written for CPUs has parallel loops, and loops that are marked to have independent
iterations: each iteration becomes a work-item. What lies outside of those is run by a single one.
Loops around launches stay on the host. The host cannot read the device's memory: values that it
would hand on are read by each work-item, and so are conditions, unless the work changes what they
read. A loss that is marked is no such change: conditions hold of it as of what it was
(`was_finite` in `odtc/core/ir/mark_loss.py`). A kernel that is bound to threads already stays as it
is, but for what each work-item allocates for itself, which becomes its private memory.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, tirx

from odtc.core.ir.kernel_marks import INDEPENDENT
from odtc.core.ir.update_marks import MARKS_LOSS
from odtc.passes.contract import Pass
from odtc.passes.ir.tensor_bytes import buffer_bytes

# Bytes of private memory of a work-item, at most.
MOST_PRIVATE = 16 << 10

# From what a work-item does to that, with what it has to know before.
Around = Callable[[tirx.Stmt], tirx.Stmt]


@dataclass(frozen=True)
class BindLoops(Pass):
    """Binds the loops of all kernels, which hold no blocks any more.

    Attributes:
        items: work-items of a group.

    Raises:
        ValueError: an iteration needs more memory than a work-item may have.
    """

    name: ClassVar[str] = "bind-loops"
    items: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the kernels."""
        bound = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                marked = kernel.params[-1:] if MARKS_LOSS in (kernel.attrs or {}) else []
                body = _Binding(self.items, {*marked}).bound(kernel.body, lambda inner: inner)
                bound.update_func(variable, kernel.with_body(body))
        return bound


@dataclass(frozen=True)
class _Binding:
    """The binding of one kernel.

    Attributes:
        items: work-items of a group.
        marked: tensors that the kernel only marks, if it writes them.
    """

    items: int
    marked: Set[Any]

    def bound(self, statement: tirx.Stmt, around: Around) -> tirx.Stmt:
        """A statement of the host, all of whose work is done by launches."""
        if _is_launch(statement):
            return _with_private(_inside(statement, around))
        if _is_spread(statement):
            return _with_private(self._items_of(statement, around))
        if _contains(statement, tirx.AttrStmt, _is_launch) or _contains(
            statement, tirx.For, _is_spread
        ):
            if isinstance(statement, tirx.SeqStmt) and not _changes_what_it_handed_on(statement):
                return _in_order(self._sequence(statement, around))
            if isinstance(statement, tirx.For) and not _reads(statement.extent):
                return _with_body(statement, self.bound(statement.body, around))
            if isinstance(statement, tirx.IfThenElse) and statement.else_case is None:
                return self._conditional(statement, around)
        return _with_private(_single(around(_serial(statement))))

    def _sequence(self, sequence: tirx.SeqStmt, around: Around) -> Iterator[tirx.Stmt]:
        handed: set[Any] = set()
        for each in sequence:
            if isinstance(each, tirx.Bind) and _hangs_on_tensors(each.value, handed):
                handed.add(each.var)
                around = _knowing(each, around)
            elif isinstance(each, tirx.AllocBuffer | tirx.DeclBuffer | tirx.Bind):
                yield each
            else:
                yield self.bound(each, around)

    def _conditional(self, statement: tirx.IfThenElse, around: Around) -> tirx.Stmt:
        condition, body = statement.condition, statement.then_case
        if not _reads(condition):
            return tirx.IfThenElse(condition, self.bound(body, around), None)
        if _stored(body) & _loaded(condition) - self.marked:
            return _with_private(_single(around(_serial(statement))))
        return self.bound(body, lambda inner: around(tirx.IfThenElse(condition, inner, None)))

    def _items_of(self, loop: tirx.For, around: Around) -> tirx.Stmt:
        """A work-item for each iteration of nested loops."""
        loops, body = _nest(loop)
        sizes = [_most(each) for each in loops]
        count = math.prod(sizes)
        items = min(self.items, count)
        group, item = _axis("blockIdx.x", -(-count // items)), _axis("threadIdx.x", items)
        number = group.var * items + item.var
        places, tests = {}, [number < count] if count % items else []
        inner = count
        for each, size in zip(loops, sizes, strict=True):
            outer, inner = inner, inner // size
            at = number if outer == count else number % outer
            at = at // inner if inner > 1 else at
            dtype = str(each.loop_var.ty.dtype)
            at = at if dtype == "int32" else at.astype(dtype)
            places[each.loop_var] = each.min + at
            if not isinstance(each.extent, tirx.IntImm):
                tests.append(at < _placed(each.extent, places))
        body = _placed(_serial(body), places)
        if tests:
            body = tirx.IfThenElse(tirx.all(*tests), body, None)
        return _launch([group, item], around(body))


def _placed(node: Any, places: dict[Any, ir.Expr]) -> Any:
    """Loops' variables replaced by what the work-item's number makes of them."""
    return tvm_ffi.structural_map(node, (ir.Var, lambda each: places.get(each, each)))


def _nest(loop: tirx.For) -> tuple[list[tirx.For], tirx.Stmt]:
    """A loop and the marked loops directly within it, and the body of the last."""
    loops = [loop]
    while isinstance(loops[-1].body, tirx.For) and INDEPENDENT in loops[-1].body.annotations:
        loops.append(loops[-1].body)
    return loops, loops[-1].body


def _most(loop: tirx.For) -> int:
    """Iterations of a loop, at most: the mark says so where the extent is no constant."""
    extent = loop.extent
    return int(extent if isinstance(extent, tirx.IntImm) else loop.annotations[INDEPENDENT])


def _in_order(statements: Iterable[tirx.Stmt]) -> tirx.Stmt:
    """One statement for those of a sequence, which holds no sequences."""
    flat: list[tirx.Stmt] = []
    for each in statements:
        flat.extend(each.seq if isinstance(each, tirx.SeqStmt) else [each])
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def _single(statement: tirx.Stmt) -> tirx.Stmt:
    """A statement that one work-item runs."""
    return _launch([_axis("blockIdx.x", 1), _axis("threadIdx.x", 1)], statement)


def _axis(tag: str, extent: int) -> tirx.IterVar:
    variable = tirx.Var(tag.replace(".", "_"), "int32")
    return tirx.IterVar(ir.Range(0, extent), variable, tirx.IterVar.ThreadIndex, tag)


def _launch(axes: Sequence[tirx.IterVar], body: tirx.Stmt) -> tirx.Stmt:
    for axis in reversed(axes):
        body = tirx.AttrStmt(axis, "thread_extent", axis.dom.extent, body)
    return body


def _inside(statement: tirx.Stmt, around: Around) -> tirx.Stmt:
    """A launch, with something around what its work-items do."""
    if not _is_launch(statement):
        return around(statement)
    body = _inside(statement.body, around)
    return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)


def _knowing(bind: tirx.Bind, around: Around) -> Around:
    """Each launch gets a name of its own for a value."""

    def with_value(inner: tirx.Stmt) -> tirx.Stmt:
        name = tirx.Var(bind.var.name, bind.var.ty)
        renamed = _placed(inner, {bind.var: name})
        return around(_in_order([tirx.Bind(name, bind.value), renamed]))

    return with_value


def _changes_what_it_handed_on(sequence: tirx.SeqStmt) -> bool:
    """Whether a value that is read anew by each launch may have changed by then."""
    handed: set[Any] = set()
    for each in sequence:
        if isinstance(each, tirx.Bind):
            handed |= _loaded(each.value)
        elif handed & _stored(each):
            return True
    return False


def _is_launch(statement: Any) -> bool:
    return isinstance(statement, tirx.AttrStmt) and statement.attr_key == "thread_extent"


def _is_spread(statement: Any) -> bool:
    """Whether it is a loop whose iterations are work-items."""
    return isinstance(statement, tirx.For) and (
        statement.kind == tirx.ForKind.PARALLEL or INDEPENDENT in statement.annotations
    )


def _loaded(expression: ir.Expr) -> set[Any]:
    """The tensors that an expression reads."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(expression, (ir.TensorLoad, loads.append))
    return {each.source for each in loads}


def _stored(statement: tirx.Stmt) -> set[Any]:
    """The tensors that a statement writes."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    return {each.buffer for each in stores}


def _reads(expression: ir.Expr) -> bool:
    return bool(_loaded(expression))


def _hangs_on_tensors(value: ir.Expr, names: set[Any]) -> bool:
    """Whether a value is read from tensors, or made of names that are."""
    return _reads(value) or any(name in names for name in tirx.analysis.undefined_vars(value))


def _contains(statement: tirx.Stmt, kind: type, test: Callable[[Any], bool]) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (kind, lambda each: found.append(test(each))))
    return any(found)


def _serial(statement: tirx.Stmt) -> tirx.Stmt:
    """The same with parallel loops run one iteration after the other."""

    def plain(loop: tirx.For) -> tirx.Stmt:
        if not _is_spread(loop):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)

    return tvm_ffi.structural_map(statement, (tirx.For, plain))


def _with_body(loop: tirx.For, body: tirx.Stmt) -> tirx.For:
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations
    )


def _with_private(launch: tirx.Stmt) -> tirx.Stmt:
    """A launch whose work-items allocate private memory only."""
    private: dict[Any, tirx.Buffer] = {}

    def visit(allocation: tirx.AllocBuffer) -> None:
        buffer = allocation.buffer
        if buffer.scope() != "global":
            return
        if (size := buffer_bytes(buffer)) > MOST_PRIVATE:
            raise ValueError(f"{buffer.name} has {size} bytes for each work-item")
        sizes = [int(size) for size in buffer.shape]
        private[buffer] = tirx.decl_buffer(sizes, str(buffer.dtype), buffer.name, scope="local")

    tvm_ffi.structural_walk(launch, (tirx.AllocBuffer, visit))
    return _placed(launch, private) if private else launch
