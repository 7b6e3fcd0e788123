"""Whether each kernel of a GPU is bound to threads, and within what the GPU takes.

A driver that is given more than it takes may refuse it when the kernel first runs, or do anything.
What a kernel is given is counted as it will be when its launches are functions of their own: the
tensors that a launch reads or writes, and the numbers of the host that it needs.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.tirx.buffer import BufferType

from odtc.core.errors import UnsupportedError
from odtc.passes.contract import Pass
from odtc.passes.ir.tensor_bytes import buffer_bytes

# Bytes of a pointer of the device.
_POINTER = 8
# The call that combines values of a group's items.
_COMBINE = "tirx.tvm_thread_allreduce"


@dataclass(frozen=True)
class CheckLaunches(Pass):
    """Checks all kernels, which hold no blocks any more; the module stays as it is.

    Attributes:
        target: whose GPU it is, for messages.
        items: of a work-group, at most.
        shared_bytes: that a work-group shares, at most.
        argument_bytes: of the arguments of a launch, at most; None for no such limit.
        buffers: among these, at most; None for no such limit.

    Raises:
        ValueError: a kernel computes outside of launches, where nothing can read its tensors.
        UnsupportedError: a launch is beyond a limit.
    """

    name: ClassVar[str] = "check-launches"
    target: str = field(repr=False)
    items: int
    shared_bytes: int
    argument_bytes: int | None = None
    buffers: int | None = None

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Checks the kernels."""
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                if _computes_on_host(kernel.body):
                    raise ValueError(f"{variable.name_hint} computes outside of threads")
                for launch in launches_of(kernel.body):
                    self._check(variable.name_hint, launch)
        return module

    def _check(self, kernel: str, launch: tirx.AttrStmt) -> None:
        needs = needs_of(launch)
        for what, count, most in (
            ("work-groups of {:,} items", needs.items, self.items),
            ("{:,} bytes that a work-group shares", needs.shared_bytes, self.shared_bytes),
            ("{:,} bytes of arguments", needs.argument_bytes, self.argument_bytes),
            ("{:,} buffers", needs.buffers, self.buffers),
        ):
            if most is not None and count > most:
                raise UnsupportedError(
                    f"the kernel {kernel} needs {what.format(count)}; "
                    f"the GPU of {self.target} takes at most {most:,}",
                    where=self.target,
                    hint="name the device's GPU if it takes more (gpu=, of `odtc targets`), or "
                    "compile the model for another target, such as the CPU of that device",
                )


@dataclass(frozen=True)
class Needs:
    """The resources that a launch asks of a GPU.

    Attributes:
        items: of a work-group.
        shared_bytes: that a work-group shares, at most: TVM may lay tensors over each other.
        argument_bytes: of its arguments.
        buffers: among these.
    """

    items: int
    shared_bytes: int
    argument_bytes: int
    buffers: int


def launches_of(statement: tirx.Stmt) -> Iterator[tirx.AttrStmt]:
    """The launches of a kernel's body, the outermost statement of each."""
    return (launch for launch, _ in counted_launches(statement))


def counted_launches(statement: tirx.Stmt, times: int = 1) -> Iterator[tuple[tirx.AttrStmt, int]]:
    """The launches, each with how often the host's loops around it make it.

    Both sides of a condition count, and once what is in a loop of no constant length.
    """
    if _is_launch(statement):
        yield statement, times
    elif isinstance(statement, tirx.SeqStmt):
        for each in statement:
            yield from counted_launches(each, times)
    elif isinstance(statement, tirx.IfThenElse):
        yield from counted_launches(statement.then_case, times)
        if statement.else_case is not None:
            yield from counted_launches(statement.else_case, times)
    elif isinstance(statement, tirx.For):
        extent = statement.extent
        many = extent.value if isinstance(extent, tirx.IntImm) else 1
        yield from counted_launches(statement.body, times * many)
    elif isinstance(statement, tirx.AttrStmt | tirx.While):
        yield from counted_launches(statement.body, times)


def needs_of(launch: tirx.AttrStmt) -> Needs:
    """The resources that a launch asks for."""
    items = math.prod(_along(launch, "threadIdx"))
    given = list(tirx.analysis.undefined_vars(launch))
    tensors = [each for each in given if isinstance(each.ty, BufferType)]
    offsets = {each.elem_offset for each in tensors if isinstance(each.elem_offset, ir.Var)}
    numbers = offsets | {each for each in given if not isinstance(each.ty, BufferType)}
    return Needs(
        items,
        sum(map(buffer_bytes, _shared_in(launch))) + items * sum(map(_size, _combined_in(launch))),
        _POINTER * len(tensors) + sum(map(_size, numbers)),
        len(tensors),
    )


def groups_of(launch: tirx.AttrStmt) -> int:
    """Work-groups of a launch."""
    return math.prod(_along(launch, "blockIdx"))


def _along(launch: tirx.AttrStmt, kind: str) -> Iterable[int]:
    """Groups of a launch, or items of a group, along each axis."""
    sizes: dict[str, int] = {}

    def visit(each: tirx.AttrStmt) -> None:
        if _is_launch(each) and (tag := str(each.node.thread_tag)).startswith(kind):
            sizes[tag] = max(sizes.get(tag, 1), int(each.value))

    tvm_ffi.structural_walk(launch, (tirx.AttrStmt, visit))
    return sizes.values()


def _shared_in(launch: tirx.AttrStmt) -> list[tirx.Buffer]:
    """The buffers that a work-group shares."""
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(launch, (tirx.AllocBuffer, found.append))
    return [each.buffer for each in found if each.buffer.scope().startswith("shared")]


def _combined_in(launch: tirx.AttrStmt) -> list[ir.Expr]:
    """Values that the items of a group combine, for each of which TVM lets them share one."""
    found: list[ir.Call] = []
    tvm_ffi.structural_walk(launch, (ir.Call, found.append))
    calls = [each for each in found if getattr(each.op, "name", "") == _COMBINE]
    return [value for call in calls for value in call.args[1 : 1 + int(call.args[0])]]


def _size(number: ir.Expr) -> int:
    return np.dtype(str(number.ty.dtype)).itemsize


def _is_launch(statement: Any) -> bool:
    return isinstance(statement, tirx.AttrStmt) and statement.attr_key == "thread_extent"


def _computes_on_host(body: tirx.Stmt) -> bool:
    """Whether a kernel reads or writes tensors outside of its launches."""
    nothing = tirx.Evaluate(tirx.const(0, "int32"))
    rest = tvm_ffi.structural_map(
        body, (tirx.AttrStmt, lambda each: nothing if _is_launch(each) else each)
    )
    found: list[Any] = []
    tvm_ffi.structural_walk(rest, (ir.TensorLoad, found.append))
    tvm_ffi.structural_walk(rest, (tirx.BufferStore, found.append))
    return bool(found)
