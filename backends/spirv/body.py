"""The code of a kernel: blocks with structured control flow, as SPIR-V requires.

A value that is computed without reading memory is computed once where it is known to have been:
each block has a scope, and sees the values of the scopes around it. TVM writes the same index
expression out wherever it is used; drivers would find that again, kernel by kernel. What does not
change in a loop that is to be unrolled is computed before it: once, as iterations are to be one
after the other anyway. Other loops keep theirs, as it would take registers all the while.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from odtc.backends.spirv.module import Module, instruction
from odtc.backends.spirv.opcodes import (
    ACQUIRE_RELEASE,
    MAKE_AVAILABLE,
    MAKE_VISIBLE,
    NON_PRIVATE,
    UNROLL,
    WORKGROUP_MEMORY,
    WORKGROUP_SCOPE,
    Op,
    StorageClass,
)
from odtc.backends.spirv.types import BOOL, UINT32, ScalarKind, Types

# The ids of a value: one for each lane.
Value = tuple[int, ...]


# What may be computed though a condition around it does not hold: it takes next to nothing.
_EASY = frozenset(
    {
        Op.I_ADD,
        Op.I_SUB,
        Op.I_MUL,
        Op.SHIFT_RIGHT_LOGICAL,
        Op.SHIFT_RIGHT_ARITHMETIC,
        Op.SHIFT_LEFT_LOGICAL,
        Op.BITWISE_AND,
        Op.BITWISE_OR,
        Op.BITWISE_XOR,
        Op.ACCESS_CHAIN,
        Op.BITCAST,
    }
)


@dataclass
class _Scope:
    """A block, with the values that are computed in it.

    Attributes:
        values: their ids, by what is computed.
        before: the end of the code before it, if it is the body of a loop that is to be unrolled.
        is_arm: whether it is run where a condition holds.
    """

    values: dict[tuple[int, ...], int] = field(default_factory=dict)
    before: list[int] | None = None
    is_arm: bool = False


class Body:
    """Writes instructions at the end of the code."""

    def __init__(self, module: Module, types: Types) -> None:
        self._module, self._types = module, types
        self._variables: list[int] = []
        self._code: list[int] = []
        self._pieces = [self._code]
        self._scopes = [_Scope()]
        # Of each value, the number of the scope that it is computed in.
        self._depths: dict[int, int] = {}
        self._first = self._block = module.new_id()

    def words(self) -> list[int]:
        """The code, with private variables in front."""
        label = instruction(Op.LABEL, self._first)
        return [*label, *self._variables, *chain.from_iterable(self._pieces)]

    def pure(self, op: Op, of: int, *operands: int) -> int:
        """A value of type `of` that depends on its operands only."""
        key = (op, of, *operands)
        for scope in reversed(self._scopes):
            if key in scope.values:
                return scope.values[key]
        depth, code = self._home(op, operands)
        new = self._module.new_id()
        code += instruction(op, of, new, *operands)
        self._scopes[depth].values[key], self._depths[new] = new, depth
        return new

    def _home(self, op: Op, operands: Sequence[int]) -> tuple[int, list[int]]:
        """The scope that a value is computed in, and the code that it is added to."""
        depth = home = len(self._scopes) - 1
        code = self._code
        # An operand that is no id, but a number, may only seem to be computed further inside.
        least = max((self._depths.get(each, 0) for each in operands), default=0)
        while depth > least:
            scope = self._scopes[depth]
            if scope.before is not None:
                home, code = depth - 1, scope.before
            elif not scope.is_arm or op not in _EASY:
                break
            depth -= 1
        return home, code

    def value(self, op: Op, of: int, *operands: int) -> int:
        """A value of type `of` that may depend on memory."""
        new = self._module.new_id()
        self.do(op, of, new, *operands)
        self._depths[new] = len(self._scopes) - 1
        return new

    def do(self, op: Op, *operands: int) -> None:
        """An instruction without a result."""
        self._code += instruction(op, *operands)

    def access(self, storage: StorageClass) -> tuple[int, ...]:
        """What a load or store of memory of a class says of it: whether other items reach it."""
        is_shared = storage is StorageClass.WORKGROUP and self._module.is_of_vulkan
        return (NON_PRIVATE,) if is_shared else ()

    def private(self, of: int) -> int:
        """A variable private to the work-item."""
        new = self._module.new_id()
        pointer = self._types.pointer(StorageClass.FUNCTION, of)
        self._variables += instruction(Op.VARIABLE, pointer, new, StorageClass.FUNCTION)
        return new

    def barrier(self) -> None:
        """Emits a barrier of the work-group, which also makes its writes to shared memory visible.

        What it reads from buffers stays on its way meanwhile.
        """
        scope = self._types.constant(UINT32, WORKGROUP_SCOPE)
        semantics = ACQUIRE_RELEASE | WORKGROUP_MEMORY
        if self._module.is_of_vulkan:
            semantics |= MAKE_AVAILABLE | MAKE_VISIBLE
        memory = self._types.constant(UINT32, semantics)
        self.do(Op.CONTROL_BARRIER, scope, scope, memory)

    def when(
        self,
        condition: int,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Runs one of two pieces of code, the second of which may be None."""
        after = self._module.new_id()
        first, second = self._module.new_id(), self._module.new_id() if otherwise else after
        self.do(Op.SELECTION_MERGE, after, 0)
        self.do(Op.BRANCH_CONDITIONAL, condition, first, second)
        self._arm(first, then, after, _Scope(is_arm=True))
        if otherwise:
            self._arm(second, otherwise, after, _Scope(is_arm=True))
        self._start(after)

    def choice(
        self,
        condition: int,
        kind: ScalarKind,
        then: Callable[[], Value],
        otherwise: Callable[[], Value],
    ) -> Value:
        """One of two values; only the chosen one is computed."""
        arms: list[tuple[Value, int]] = []

        def arm(compute: Callable[[], Value]) -> Callable[[], None]:
            return lambda: arms.append((compute(), self._block))

        self.when(condition, arm(then), arm(otherwise))
        of = self._types.computed(kind)
        (left, left_block), (right, right_block) = arms
        return tuple(
            self.value(Op.PHI, of, a, left_block, b, right_block)
            for a, b in zip(left, right, strict=True)
        )

    def loop(
        self, kind: ScalarKind, bounds: Sequence[int], run: Callable[[int], None], *, unroll: bool
    ) -> None:
        """Runs code for each of some numbers.

        Args:
            kind: of the numbers.
            bounds: ids of the first one, of the end, and of the step.
            run: takes the id of the number.
            unroll: whether the driver is asked to unroll the loop.
        """
        begin, end, step = bounds
        head, inside, again, after, following = (self._module.new_id() for _ in range(5))
        of, before = self._types.computed(kind), self._block
        scope = _Scope(before=self._piece() if unroll else None)
        self._jump(head)
        number = self.value(Op.PHI, of, begin, before, following, again)
        self._depths[number] = len(self._scopes)
        less = Op.S_LESS_THAN if kind.code == "int" else Op.U_LESS_THAN
        condition = self.value(less, self._types.scalar(BOOL), number, end)
        self.do(Op.LOOP_MERGE, after, again, UNROLL if unroll else 0)
        self.do(Op.BRANCH_CONDITIONAL, condition, inside, after)
        self._arm(inside, lambda: run(number), again, scope)
        self._start(again)
        self.do(Op.I_ADD, of, following, number, step)
        self.do(Op.BRANCH, head)
        self._start(after)

    def repeat(self, condition: Callable[[], int], run: Callable[[], None]) -> None:
        """Runs code while a condition holds, which is evaluated before each iteration."""
        head, test, inside, again, after = (self._module.new_id() for _ in range(5))
        self._jump(head)
        self.do(Op.LOOP_MERGE, after, again, 0)
        self._jump(test)
        with self._scope(_Scope()):
            self.do(Op.BRANCH_CONDITIONAL, condition(), inside, after)
            self._arm(inside, run, again, _Scope())
        self._start(again)
        self.do(Op.BRANCH, head)
        self._start(after)

    def _piece(self) -> list[int]:
        """The end of the code so far, which may be added to while the code after it is written."""
        end, self._code = [], []
        self._pieces += [end, self._code]
        return end

    def _arm(self, label: int, run: Callable[[], None], after: int, scope: _Scope) -> None:
        self._start(label)
        with self._scope(scope):
            run()
        self.do(Op.BRANCH, after)

    def _jump(self, label: int) -> None:
        self.do(Op.BRANCH, label)
        self._start(label)

    def _start(self, label: int) -> None:
        self._block = label
        self.do(Op.LABEL, label)

    @contextmanager
    def _scope(self, scope: _Scope) -> Iterator[None]:
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()
