"""The plan of a function as a record: its tensors with their kinds, and calls for times.

The solver counts bindings; a reader counts calls of kernels. What a tensor is follows from the tags
of the variables that it is bound to (`passes/graph/name_tensors.py`), from when it is read, and
from who allocates it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from tvm import ir, relax

from odtc.core.artifact.memory_plan import Kind, MemoryPlan, Origin, PlannedTensor
from odtc.core.ir.relax_calls import is_call
from odtc.core.ir.tensor_tags import Tags
from odtc.core.specs import TensorSpec
from odtc.passes.graph.name_tensors import tags_in
from odtc.passes.memory.packing.problem import PackingProblem, PackingSolution
from odtc.passes.memory.turn import turn_between

# Name of a kernel's own buffers.
WORKSPACE = "workspace"
_ALLOCATION = "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class _Value:
    """A value in a tensor, from its write until a call writes over it.

    Attributes:
        tensor: number of the binding that allocates the tensor.
        number: of the binding that names the value.
        variable: its name.
        first: the call that writes it.
        last: the last call in which no other value lies there.
        read: the last call that may read it, as it writes over it.
    """

    tensor: int
    number: int
    variable: relax.Var
    first: int
    last: int
    read: int


def record_of(
    bindings: Sequence[relax.Binding],
    problem: PackingProblem,
    solution: PackingSolution,
    origins: Sequence[Origin],
) -> MemoryPlan:
    """The record of a plan.

    Args:
        bindings: of the function, in order; a tensor is `builtin.alloc_tensor`.
        problem: a buffer for each tensor in the arena, named by the number of its binding.
        solution: where they lie.
        origins: of the tensors that tags have the numbers of.
    """
    calls = [number for number, binding in enumerate(bindings) if is_kernel(binding.value)]
    tags = tags_in(bindings)
    spans = {int(b.id): _in_calls(calls, b.lower, b.upper) for b in problem.buffers}
    values = sorted(_values(bindings, calls, spans), key=lambda each: each.tensor)
    backward = _first_backward(len(calls), values, tags)
    returned = [n for n, b in enumerate(bindings) if _is_allocation(b) and n not in spans]
    # Operands of the loss's own computation are not saved for the backward pass.
    closing = [bisect_left(calls, number) for number in returned]
    tensors = []
    for value in values:
        found = tags.get(value.variable, ())
        saved = value.first < backward <= value.read and value.read not in closing
        kind = _kind(value.variable.name, found, origins, saved=saved)
        place = solution.offsets[str(value.tensor)], value.first, value.last
        spec = _spec(value.variable, value.number)
        tensors.append(PlannedTensor(spec, kind, *place, named(found, origins)))
    names = tuple(bindings[number].value.op.name_hint for number in calls)
    return MemoryPlan(
        names,
        backward,
        tuple(_with_workspaces(tensors)),
        solution.height,
        solution.lower_bound,
        sum(_spec(bindings[number].var, number).nbytes for number in returned),
    )


def _with_workspaces(tensors: Sequence[PlannedTensor]) -> Iterator[PlannedTensor]:
    """The tensors; a workspace comes from the nodes that its call computes."""
    written = {each.first: each.origins for each in tensors if each.kind is not Kind.WORKSPACE}
    for each in tensors:
        known = each.kind is not Kind.WORKSPACE or each.first not in written
        yield each if known else replace(each, origins=written[each.first])


def is_kernel(value: relax.Expr) -> bool:
    """Whether a value is the call of a kernel."""
    return isinstance(value, relax.Call) and isinstance(value.op, ir.GlobalVar | relax.ExternFunc)


def _is_allocation(binding: relax.Binding) -> bool:
    return is_call(binding.value, _ALLOCATION)


def _in_calls(calls: Sequence[int], lower: int, upper: int) -> tuple[int, int]:
    """The calls in which a buffer is alive, by its lifespan in bindings."""
    first = min(bisect_left(calls, lower), len(calls) - 1)
    return first, max(first, bisect_right(calls, upper - 1) - 1)


def _spec(variable: relax.Var, number: int) -> TensorSpec:
    type_ = variable.ty
    name = f"{variable.name}.{number}"
    return TensorSpec(name, tuple(int(size) for size in type_.shape), str(type_.dtype))


def _values(
    bindings: Sequence[relax.Binding],
    calls: Sequence[int],
    spans: Mapping[int, tuple[int, int]],
) -> Iterator[_Value]:
    """Yields the values in each tensor: one, or several where calls write over it.

    A call that writes over `x` is followed by another name of that, `y = x`.
    """
    named: dict[relax.Var, int] = {}
    over: dict[int, list[int]] = {number: [number] for number in spans}
    for number, binding in enumerate(bindings):
        if number in spans:
            named[binding.var] = number
        elif isinstance(binding.value, relax.Var) and binding.value in named:
            tensor = named[binding.var] = named[binding.value]
            before = bindings[number - 1].value
            is_read = is_kernel(before) and any(each.same_as(binding.value) for each in before.args)
            if is_read and not binding.value.same_as(bindings[tensor].var):
                over[tensor].append(number)
    for tensor, (first, last) in spans.items():
        begins = [first, *(bisect_left(calls, number) - 1 for number in over[tensor][1:])]
        for number, begin, following in zip_longest(over[tensor], begins, begins[1:]):
            end, read = (last, last) if following is None else (following - 1, following)
            yield _Value(tensor, number, bindings[number].var, begin, end, read)


def _first_backward(calls: int, values: Sequence[_Value], tags: Mapping[relax.Var, Tags]) -> int:
    """The first call of the backward pass, which writes a gradient."""
    gradients, forward, seen = set[int](), set[int](), set[int]()
    for value in sorted(values, key=lambda each: each.first):
        for tag in tags.get(value.variable, ())[:1]:
            if tag.gradient:
                gradients.add(value.first)
            # What is computed again is written in the backward pass.
            elif tag.number not in seen:
                forward.add(value.first)
                seen.add(tag.number)
    return turn_between(forward - gradients, gradients, calls)


def named(tags: Tags, origins: Sequence[Origin]) -> tuple[Origin, ...]:
    """The nodes that tags refer to: the tensor's name only where it is that tensor."""
    named = dict[tuple[str, bool], Origin]()
    for tag in tags:
        origin = origins[tag.number]
        tensor = origin.tensor if tag.exact or not origin.node else ""
        own = Origin(origin.node, tensor, tag.gradient)
        named.setdefault((origin.node or origin.tensor, tag.gradient), own)
    return tuple(named.values())


def _kind(name: str, tags: Tags, origins: Sequence[Origin], *, saved: bool) -> Kind:
    """Returns the kind of a tensor.

    Args:
        name: of its variable.
        tags: of the tensor; none where it belongs to no node.
        origins: of the numbers in tags.
        saved: whether the forward pass writes it for the backward pass.
    """
    if name.startswith(WORKSPACE):
        return Kind.WORKSPACE
    if not tags:
        return Kind.OTHER
    if tags[0].gradient:
        whole = tags[0].exact and not origins[tags[0].number].node
        return Kind.PARAMETER_GRADIENT if whole else Kind.GRADIENT
    return Kind.SAVED if saved else Kind.ACTIVATION
