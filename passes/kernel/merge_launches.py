"""One launch for several kernels that do not depend on each other.

The work-groups of the new launch are those of the kernels, one kernel after the other; each group
looks which of them it belongs to, and does what it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import transform as T  # noqa: N812

_GROUP, _ITEM = "blockIdx.x", "threadIdx.x"


@dataclass(frozen=True)
class Launch:
    """A kernel that is one launch along one axis, whose work-items share no memory.

    Attributes:
        kernel: the kernel.
        group: number of the work-group.
        item: number of the work-item in its group.
        body: what an item does.
    """

    kernel: tirx.PrimFunc
    group: tirx.IterVar
    item: tirx.IterVar
    body: tirx.Stmt

    @property
    def groups(self) -> int:
        """Work-groups."""
        return int(self.group.dom.extent)

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return int(self.item.dom.extent)


def launch_of(kernel: tirx.PrimFunc) -> Launch | None:
    """A kernel as such a launch, if it is one."""
    outer = kernel.body
    if not _is_axis(outer, _GROUP) or not _is_axis(outer.body, _ITEM):
        return None
    inner = outer.body
    return None if _shares(inner.body) else Launch(kernel, outer.node, inner.node, inner.body)


def merge(
    launches: Sequence[Launch], given: Sequence[Sequence[Any]], order: Sequence[Any]
) -> tirx.PrimFunc:
    """The kernel that does what all of them do.

    Args:
        launches: none of which reads or writes what another one writes.
        given: what each is called with.
        order: what the new kernel is called with: each of these once.
    """
    kinds = {
        argument: parameter
        for launch, arguments in zip(launches, given, strict=True)
        for parameter, argument in zip(launch.kernel.params, arguments, strict=True)
    }
    new = {argument: _copy(kinds[argument]) for argument in order}
    group = _axis(_GROUP, sum(launch.groups for launch in launches))
    item = _axis(_ITEM, max(launch.items for launch in launches))
    body: tirx.Stmt | None = None
    starts = [0, *accumulate(launch.groups for launch in launches)]
    for launch, arguments, start in reversed(list(zip(launches, given, starts, strict=False))):
        places: dict[Any, Any] = {
            parameter: new[argument]
            for parameter, argument in zip(launch.kernel.params, arguments, strict=True)
        }
        places |= {launch.group.var: group.var - start, launch.item.var: item.var}
        own = tvm_ffi.structural_map(launch.body, (ir.Var, lambda v, at=places: at.get(v, v)))
        if launch.items < int(item.dom.extent):
            own = tirx.IfThenElse(item.var < launch.items, own, None)
        is_here = group.var < start + launch.groups
        body = own if body is None else tirx.IfThenElse(is_here, own, body)
    for axis in (item, group):
        body = tirx.AttrStmt(axis, "thread_extent", axis.dom.extent, body)
    first = launches[0].kernel
    made = tirx.PrimFunc(list(new.values()), body, first.ret_type, attrs=first.attrs)
    # Kernels that are merged with themselves have the same names inside.
    return T.ConvertSSA()(tvm.IRModule({"kernel": made}))["kernel"]


def _copy(parameter: Any) -> tirx.Buffer:
    return tirx.decl_buffer(list(parameter.shape), str(parameter.dtype), parameter.name)


def _axis(tag: str, extent: int) -> tirx.IterVar:
    variable = tirx.Var(tag.replace(".", "_"), "int32")
    return tirx.IterVar(ir.Range(0, extent), variable, tirx.IterVar.ThreadIndex, tag)


def _is_axis(statement: Any, tag: str) -> bool:
    return (
        isinstance(statement, tirx.AttrStmt)
        and statement.attr_key == "thread_extent"
        and str(statement.node.thread_tag) == tag
    )


def _shares(body: tirx.Stmt) -> bool:
    """Whether there is memory of the group's, or another axis."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, lambda each: found.append(each.buffer)))
    shared = any(buffer.scope() != "local" for buffer in found)
    tvm_ffi.structural_walk(body, (tirx.AttrStmt, lambda each: found.append(each.attr_key)))
    return shared or "thread_extent" in found
