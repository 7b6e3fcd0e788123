"""Gradients are written over what their calls read for the last time.

A rectifier's slope is applied by the kernel that makes the gradient: it reads each element of an
activation for the same element of its result. Nothing reads the activation after it, so that both
can be the same memory; else, of the first layers of a network for large images, it is these two and
the gradient that comes in that set how small a step can be. No bit changes.

    g = kernel(.., activation)  ─write-over→  g = kernel(.., activation), in place of the activation

The activation's other readers run before. Only gradients are written so: what the forward pass
makes may have to be made again.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.tirx.buffer import BufferType

from odtc.core.ir.outline_marks import MADE_FROM, REPLACEABLE, WRITTEN_OVER
from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.core.ir.tensor_tags import tags_of
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import with_bindings
from odtc.passes.ir.calls import Calls, with_views, without_unused, workspaces_in
from odtc.passes.ir.stored_once import is_stored_once

_CALL, _INTRINSIC = "relax.call_tir", "tirx.call_llvm_intrin"
# Tensors of a call that has one result: that, and its workspace.
_ALONE = 2


@dataclass(frozen=True)
class WriteOver(Pass):
    """Lets kernels write gradients in place.

    Functions hold no dataflow blocks, and kernels no blocks.

    Attributes:
        function: name of the training step.
    """

    name: ClassVar[str] = "write-over"
    function: str = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function, whose calls are then in another order, and adds kernels."""
        function = module[self.function]
        builder = relax.BlockBuilder(module)
        writing = _Writing(builder, Calls(function, workspaces_in(module, 1)))
        bindings = list(with_views(list(writing.bindings()), function))
        module = builder.get()
        module.update_func(module.get_global_var(self.function), with_bindings(function, bindings))
        return relax.transform.Normalize()(without_unused(module, writing.replaced))


def replaceable(kernel: tirx.PrimFunc) -> list[int]:
    """The places of the operands that a kernel's one result, its last parameter, may lie over.

    Args:
        kernel: without blocks.
    """
    noted = (kernel.attrs or {}).get(REPLACEABLE)
    if noted is not None:
        return [int(place) for place in noted]
    if not all(isinstance(each.ty, BufferType) for each in kernel.params):
        return []
    *operands, result = kernel.params
    found = [
        place
        for place, operand in enumerate(operands)
        if _type_of(operand) == _type_of(result) and not _is_read_elsewhere(kernel, operand)
    ]
    return found if found and is_stored_once(kernel, result) else []


def written_over(kernel: tirx.PrimFunc, place: int) -> tirx.PrimFunc:
    """The kernel with its result in an operand, whose place is one of `replaceable`."""
    *operands, result = kernel.params
    body = tvm_ffi.structural_map(
        kernel.body, (ir.Var, lambda var: operands[place] if var.same_as(result) else var)
    )
    made = tirx.PrimFunc(operands, body, kernel.ret_type, attrs=kernel.attrs)
    return made.with_attr(WRITTEN_OVER, place) if MADE_FROM in (kernel.attrs or {}) else made


def _type_of(buffer: ir.Var) -> tuple[list[int], str]:
    return [int(size) for size in buffer.shape], str(buffer.dtype)


def _is_read_elsewhere(kernel: tirx.PrimFunc, operand: ir.Var) -> bool:
    """Whether a kernel names an operand but for the element of its result at the same place."""
    result = kernel.params[-1]

    def store(each: tirx.BufferStore) -> tirx.BufferStore:
        if not each.buffer.same_as(result):
            return each

        def load(read: ir.TensorLoad) -> ir.TensorLoad:
            is_here = read.source.same_as(operand) and _is_same(read.indices, each.indices)
            return tirx.BufferLoad(result, list(read.indices)) if is_here else read

        value = tvm_ffi.structural_map(each.value, (ir.TensorLoad, load))
        return tirx.BufferStore(each.buffer, value, each.indices)

    def ahead(each: tirx.Evaluate) -> tirx.Evaluate:
        # A hint that a line will be read soon reads nothing.
        is_hint = is_call(each.value, _INTRINSIC)
        return tirx.Evaluate(tirx.const(0, "int32")) if is_hint else each

    body = tvm_ffi.structural_map(kernel.body, ((tirx.BufferStore, store), (tirx.Evaluate, ahead)))
    named: list[ir.Var] = []
    tvm_ffi.structural_walk(body, (ir.Var, named.append))
    return any(each.same_as(operand) for each in named)


def _is_same(left: Sequence[ir.Expr], right: Sequence[ir.Expr]) -> bool:
    return len(left) == len(right) and all(map(tvm_ffi.structural_equal, left, right))


class _Writing:
    """The calls of a function, some of them in place.

    Attributes:
        replaced: kernels of which others are in place now.
    """

    def __init__(self, builder: relax.BlockBuilder, calls: Calls) -> None:
        self._builder, self._calls = builder, calls
        self._places: dict[ir.GlobalVar, list[int]] = {}
        self._made: dict[tuple[ir.GlobalVar, int], ir.GlobalVar] = {}
        tasks = calls.tasks.tasks
        self._behind = [set(each) for each in calls.tasks.behind]
        self._needed: list[set[int]] = [set() for _ in tasks]
        for number, behind in enumerate(self._behind):
            for other in behind:
                self._needed[other].add(number)
        self._readers: dict[int, set[int]] = defaultdict(set)
        for number, task in enumerate(tasks):
            for tensor in task.reads:
                self._readers[tensor].add(number)
        self.replaced: set[ir.GlobalVar] = set()

    def bindings(self) -> Iterator[relax.Binding]:
        """The calls in an order in which what is written over is not read any more."""
        chosen = {}
        for number, binding in enumerate(self._calls.bindings):
            place = self._place_of(number, binding)
            if place is not None:
                chosen[number] = self._in_place(binding, place)
        for number in self._order():
            yield chosen.get(number, self._calls.bindings[number])

    def _place_of(self, number: int, binding: relax.Binding) -> int | None:
        """The operand that a call is to write over; the calls that read it run before it then."""
        tags = tags_of(binding.var.name)[:1]
        if operator_of(binding.value) != _CALL or not (tags and tags[0].gradient):
            return None
        given = list(binding.value.args[1].fields)
        for place in self._replaceable(binding.value.args[0]):
            if self._is_own(binding, given, place):
                (tensor,) = self._calls.tensors_of(given[place])
                others = self._readers[tensor] - {number}
                if self._may_come_first(others, number, self._calls.tasks.sizes[tensor]):
                    for other in others:
                        self._behind[other].add(number)
                    self._needed[number] |= others
                    return place
        return None

    def _may_come_first(self, others: set[int], number: int, size: int) -> bool:
        """Whether calls can run before another one, and none that had not to takes more bytes.

        The gradient of a layer's weights may be much larger than its images: when it is made is
        the order's to choose. So may be what the calls need: the sum of a loss reads what is left
        of all logits, which need not be there at once.
        """
        if _reached(self._behind, [number]) & others:
            return False
        grown = self._calls.tasks.grown
        had_to = _reached(self._needed, [number])
        have_to = others | _reached(self._needed, others)
        return all(grown[each] <= size for each in have_to - had_to)

    def _is_own(self, binding: relax.Binding, given: Sequence[relax.Expr], place: int) -> bool:
        """Whether an operand is a tensor of the arena as a whole, and no other operand too."""
        operand, tensors = given[place], self._calls.tensors_of(given[place])
        tasks = self._calls.tasks
        if (
            len(tensors) != 1
            or tensors & tasks.kept
            or not tvm_ffi.structural_equal(operand.ty, binding.var.ty)
        ):
            return False
        (tensor,) = tensors
        maker = tasks.tasks[tasks.makers[tensor]]
        roots = self._calls.roots(operand)
        others = (self._calls.roots(each) for at, each in enumerate(given) if at != place)
        return (
            len(roots) == 1
            and tensor == maker.allocates[0]
            and len(maker.allocates) == _ALONE
            and not any(roots & each for each in others)
        )

    def _replaceable(self, kernel: ir.GlobalVar) -> list[int]:
        if kernel not in self._places:
            self._places[kernel] = replaceable(self._builder.get()[kernel])
        return self._places[kernel]

    def _in_place(self, binding: relax.Binding, place: int) -> relax.Binding:
        kernel, given = binding.value.args[:2]
        if (kernel, place) not in self._made:
            made = written_over(self._builder.get()[kernel], place)
            self._made[kernel, place] = self._builder.add_func(made, kernel.name_hint)
        self.replaced.add(kernel)
        call = relax.op.call_tir_inplace(
            self._made[kernel, place], given, [place], [binding.var.ty]
        )
        return relax.VarBinding(binding.var, self._builder.normalize(call))

    def _order(self) -> Iterator[int]:
        """The calls, each after those that it needs, else as they were."""
        missing = [0] * len(self._behind)
        for each in self._behind:
            for other in each:
                missing[other] += 1
        ready = [number for number, count in enumerate(missing) if not count]
        while ready:
            number = heapq.heappop(ready)
            yield number
            for other in self._behind[number]:
                missing[other] -= 1
                if not missing[other]:
                    heapq.heappush(ready, other)


def _reached(next_to: Sequence[set[int]], numbers: Iterable[int]) -> set[int]:
    """What is reached from some calls, from each to those next to it."""
    found: set[int] = set()
    pending = [*numbers]
    while pending:
        new = next_to[pending.pop()] - found
        found |= new
        pending += new
    return found
