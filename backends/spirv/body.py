"""The code of a kernel: blocks with structured control flow, as SPIR-V requires.

A value that is computed without reading memory is computed once where it is known to have been:
each block has a scope, and sees the values of the scopes around it. TVM writes the same index
expression out wherever it is used; drivers would find that again, kernel by kernel.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from odtc.backends.spirv.module import Module, instruction
from odtc.backends.spirv.opcodes import (
    ACQUIRE_RELEASE,
    UNROLL,
    WORKGROUP_MEMORY,
    WORKGROUP_SCOPE,
    Op,
    StorageClass,
)
from odtc.backends.spirv.types import BOOL, UINT32, ScalarKind, Types

# The ids of a value: one for each lane.
Value = tuple[int, ...]


class Body:
    """Writes instructions at the end of the code."""

    def __init__(self, module: Module, types: Types) -> None:
        self._module, self._types = module, types
        self._variables: list[int] = []
        self._code: list[int] = []
        self._scopes: list[dict[tuple[int, ...], int]] = [{}]
        self._first = self._block = module.new_id()

    def words(self) -> list[int]:
        """The code, with private variables in front."""
        return [*instruction(Op.LABEL, self._first), *self._variables, *self._code]

    def pure(self, op: Op, of: int, *operands: int) -> int:
        """A value of type `of` that depends on its operands only."""
        key = (op, of, *operands)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        found = self._scopes[-1][key] = self.value(op, of, *operands)
        return found

    def value(self, op: Op, of: int, *operands: int) -> int:
        """A value of type `of` that may depend on memory."""
        new = self._module.new_id()
        self.do(op, of, new, *operands)
        return new

    def do(self, op: Op, *operands: int) -> None:
        """An instruction without a result."""
        self._code += instruction(op, *operands)

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
        self._arm(first, then, after)
        if otherwise:
            self._arm(second, otherwise, after)
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
        self._jump(head)
        number = self.value(Op.PHI, of, begin, before, following, again)
        less = Op.S_LESS_THAN if kind.code == "int" else Op.U_LESS_THAN
        condition = self.value(less, self._types.scalar(BOOL), number, end)
        self.do(Op.LOOP_MERGE, after, again, UNROLL if unroll else 0)
        self.do(Op.BRANCH_CONDITIONAL, condition, inside, after)
        self._arm(inside, lambda: run(number), again)
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
        with self._scope():
            self.do(Op.BRANCH_CONDITIONAL, condition(), inside, after)
            self._arm(inside, run, again)
        self._start(again)
        self.do(Op.BRANCH, head)
        self._start(after)

    def _arm(self, label: int, run: Callable[[], None], after: int) -> None:
        self._start(label)
        with self._scope():
            run()
        self.do(Op.BRANCH, after)

    def _jump(self, label: int) -> None:
        self.do(Op.BRANCH, label)
        self._start(label)

    def _start(self, label: int) -> None:
        self._block = label
        self.do(Op.LABEL, label)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()
