"""Finds the loops of an elementwise kernel that may be fused with indices still affine.

A vector of elements is read at once where their place in memory moves on by one from lane to lane,
or not at all. Fused loops keep that only if every tensor is read along them as if it were flat: a
bias `b[c]` is not, along channel and width together. What else depends on a loop's variable, such
as the condition of a concatenation, keeps its loop apart.
"""

import math
from collections.abc import Iterator, Sequence

import tvm_ffi
from tvm import ir, tirx
from tvm.s_tir import SBlock
from tvm.sym import Analyzer, detect_linear_equation
from tvm_ffi.structural import WalkResult

# Stride in elements of an access along each loop; None where it is not constant, or where more than
# an address depends on the loop.
Steps = tuple[int | None, ...]

_IN_A_CALL = 20


def operations(value: ir.Expr) -> int:
    """Loads, operators and constants of an expression, those of its indices left out.

    A call, such as an exponential, counts as the operations that it becomes.
    """
    count = 0

    def visit(node: ir.Expr) -> WalkResult:
        nonlocal count
        count += _IN_A_CALL if isinstance(node, ir.Call) else 1
        return WalkResult.SKIP if isinstance(node, ir.TensorLoad) else WalkResult.ADVANCE

    tvm_ffi.structural_walk(value, (ir.Expr, visit), order="pre")
    return count


def loads_and_variables(value: object) -> tuple[list[ir.TensorLoad], set[ir.Var]]:
    """Returns the tensor loads in an expression or a list of them, and its other variables."""
    loads: list[ir.TensorLoad] = []
    variables: set[ir.Var] = set()

    def load(node: ir.TensorLoad) -> WalkResult:
        loads.append(node)
        return WalkResult.SKIP

    tvm_ffi.structural_walk(value, [(ir.TensorLoad, load), (ir.Var, variables.add)], order="pre")
    return loads, variables


def steps_of(block: SBlock) -> list[Steps]:
    """Strides of the accesses of a block of one store, along its loops.

    A variable that is used outside of indices, or in the index of an index, has no step.
    """
    analyzer = Analyzer()
    for each in block.iter_vars:
        analyzer.bind(each.var, each.dom)
    variables = [each.var for each in block.iter_vars]

    def access(buffer: ir.Var, indices: Sequence[ir.Expr]) -> Iterator[Steps]:
        loads, _ = loads_and_variables(list(indices))
        hidden = {used for load in loads for used in loads_and_variables(list(load.indices))[1]}
        strides = _strides([int(size) for size in buffer.shape])
        flat = sum(index * stride for index, stride in zip(indices, strides, strict=True))
        flat = analyzer.canonical_simplify(analyzer.simplify(flat + 0))
        yield tuple(None if each in hidden else _step(flat, each) for each in variables)
        for load in loads:
            yield from access(load.source, load.indices)

    loads, used = loads_and_variables(block.body.value)
    accesses = [(block.body.buffer, block.body.indices)]
    accesses += [(load.source, load.indices) for load in loads]
    plain = tuple(None if each in used else 0 for each in variables)
    return [plain, *(steps for each in accesses for steps in access(*each))]


def groups_of(steps: Sequence[Steps], extents: Sequence[int]) -> list[list[int]]:
    """Loops that may be fused, outermost first; a loop of one iteration goes with any other."""
    groups: list[list[int]] = []
    head = None
    for loop in reversed(range(len(extents))):
        joins = extents[loop] == 1 or head is None or _is_flat(steps, loop, head, extents[head])
        if groups and joins:
            groups[0].insert(0, loop)
        else:
            groups.insert(0, [loop])
        head = loop if extents[loop] > 1 else head
    return groups


def is_contiguous(steps: Sequence[Steps], extents: Sequence[int]) -> bool:
    """Whether reads along the innermost loop are contiguous, or of one element."""
    innermost = max((at for at, extent in enumerate(extents) if extent > 1), default=0)
    return all(each[innermost] in (0, 1) for each in steps)


def period_of(block: SBlock, extent: int) -> int:
    """Iterations of the innermost loop after which indices or conditions start anew.

    That is the least number, a divisor of `extent`, by which its variable is divided; `extent`
    where there is none. A quotient of it that is divided counts as many times as it was divided by.
    """
    variable = block.iter_vars[-1].var
    found = {extent}

    def visit(node: tirx.FloorMod | tirx.FloorDiv) -> None:
        if isinstance(node.b, tirx.IntImm) and (unit := _unit(node.a, variable)):
            found.add(unit * int(node.b))

    tvm_ffi.structural_walk(block.body, [(tirx.FloorMod, visit), (tirx.FloorDiv, visit)])
    return min(each for each in found if 1 < each <= extent and extent % each == 0)


def _unit(value: ir.Expr, variable: ir.Var) -> int:
    """Steps of a variable for a step of a value, at least; 0 where it does not depend on it."""
    if isinstance(value, tirx.FloorDiv) and isinstance(value.b, tirx.IntImm):
        return _unit(value.a, variable) * int(value.b)
    if isinstance(value, tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorMod):
        parts = [unit for each in (value.a, value.b) if (unit := _unit(each, variable))]
        return min(parts, default=0)
    return int(variable in loads_and_variables(value)[1])


def _is_flat(steps: Sequence[Steps], outer: int, inner: int, extent: int) -> bool:
    """Whether every access has the same stride over two loops as if they were one."""
    pairs = [(each[outer], each[inner]) for each in steps]
    return all(step is not None and whole == step * extent for whole, step in pairs)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _step(flat: ir.Expr, variable: ir.Var) -> int | None:
    """Returns the stride of a flat index in a variable; None if it is not constant."""
    found = detect_linear_equation(flat, [variable])
    return int(found[0]) if found and isinstance(found[0], tirx.IntImm) else None
