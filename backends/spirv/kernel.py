"""A kernel while it is written: its variables and buffers, and the translators of nodes.

Vectors are so many scalars: a GPU's work-item computes with scalars anyway, and drivers join loads
of neighbours where they know the alignment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from odtc.backends.spirv.body import Body, Value
from odtc.backends.spirv.module import Module
from odtc.backends.spirv.opcodes import Capability, Decoration, Glsl, Op, StorageClass
from odtc.backends.spirv.types import INT32, UINT32, ScalarKind, Types, parse
from odtc.core.errors import BuildError


@dataclass(frozen=True)
class BufferPlace:
    """The place of a buffer's elements.

    Attributes:
        variable: its id.
        storage: of the variable.
        stored: the kind of a scalar there.
        lanes: scalars of an element.
        binding: of a storage buffer.
        wide: scalars of each vector of the variable, if that is an array of vectors; or else 1.
    """

    variable: int
    storage: StorageClass
    stored: ScalarKind
    lanes: int = 1
    binding: int | None = None
    wide: int = 1


@dataclass(frozen=True)
class Translators:
    """Functions by the name of a node's class; each takes the kernel and the node."""

    expressions: Mapping[str, Callable[["KernelWriter", Any], Value]]
    statements: Mapping[str, Callable[["KernelWriter", Any], None]]


class KernelWriter:
    """One kernel, and the module that consists of it.

    Attributes:
        name: of the kernel.
        module: to be written.
        types: of the module.
        body: the code.
        values: of variables.
        buffers: places of buffers, and of the pointers that they are views of.
        group: work-items of a work-group, along three axes.
        inputs: ids of the variables that the device sets.
        vectors: ids of variables that are storage buffers of vectors, by binding and lanes.
        structs: types of storage buffers, by their variables.
        written: ids of the variables that something is stored in.
        read_in_vectors: buffers of shared memory that are arrays of vectors, to their lanes.
        matrices: of a subgroup, by the buffer that is them: their type and variables.
        only_vectors: bindings of storage buffers that nothing reaches as scalars.
        images: of bindings that may be read as images: the image, and whether it is.
    """

    def __init__(self, name: str, translators: Translators) -> None:
        self.name = name
        self.module = Module()
        self.types = Types(self.module)
        self.body = Body(self.module, self.types)
        self.values: dict[Any, Value] = {}
        self.buffers: dict[Any, BufferPlace] = {}
        self.group = [1, 1, 1]
        self.inputs: dict[int, int] = {}
        self.vectors: dict[tuple[int, int], int] = {}
        self.structs: dict[int, int] = {}
        self.written: set[int] = set()
        self.read_in_vectors: Mapping[Any, int] = {}
        self.matrices: dict[Any, tuple[int, list[int]]] = {}
        self.only_vectors: set[int | None] = set()
        self.images: dict[int | None, tuple[int, int]] = {}
        self._translators = translators

    def value(self, expression: ir.Expr) -> Value:
        """Emits an expression; returns the ids of its lanes."""
        name = type(expression).__name__
        translate = self._translators.expressions.get(name)
        if translate is None:
            raise self.unknown(f"an expression {name}")
        return translate(self, expression)

    def scalar(self, expression: ir.Expr) -> int:
        """Emits an expression of one lane; returns its id."""
        (found,) = self.value(expression)
        return found

    def run(self, statement: tirx.Stmt) -> None:
        """Emits a statement."""
        name = type(statement).__name__
        translate = self._translators.statements.get(name)
        if translate is None:
            raise self.unknown(f"a statement {name}")
        translate(self, statement)

    def kind(self, expression: ir.Expr) -> ScalarKind:
        """The kind of an expression's lanes."""
        return self.type_of(expression.ty)[0]

    def type_of(self, ty: Any) -> tuple[ScalarKind, int]:
        """Kind and lanes of a type."""
        try:
            return parse(str(ty.dtype))
        except ValueError as error:
            raise self.unknown(str(error)) from None

    def compute(self, op: Op, kind: ScalarKind, *operands: int) -> int:
        """A scalar that depends on its operands only."""
        return self.body.pure(op, self.types.computed(kind), *operands)

    def extended(self, instruction: Glsl, kind: ScalarKind, *operands: int) -> int:
        """A scalar that depends on its operands only, by an instruction of GLSL's."""
        return self.compute(Op.EXT_INST, kind, self.module.glsl, instruction, *operands)

    def constant(self, kind: ScalarKind, value: float) -> int:
        """The id of a constant."""
        return self.types.constant(kind, value)

    def elements(self, place: BufferPlace, index: ir.Expr) -> list[int]:
        """Pointers to the scalars that an index means: of each of its lanes, all of an element.

        Args:
            place: an array of scalars.
            index: of an element.
        """
        kind, first = self.kind(index), self.value(index)
        if place.lanes == 1:
            return [self.pointer(place, each) for each in first]
        lanes = self.constant(kind, place.lanes)
        return [
            self.pointer(
                place,
                self.compute(
                    Op.I_ADD,
                    kind,
                    self.compute(Op.I_MUL, kind, each, lanes),
                    self.constant(kind, lane),
                ),
            )
            for each in first
            for lane in range(place.lanes)
        ]

    def pointer(self, place: BufferPlace, *path: int) -> int:
        """A pointer to a scalar: its index, or that of its vector, and its place there."""
        of = self.types.pointer(place.storage, self.types.scalar(place.stored))
        is_struct = place.storage is StorageClass.STORAGE_BUFFER
        before = [self.constant(INT32, 0)] if is_struct else []
        return self.body.pure(Op.ACCESS_CHAIN, of, place.variable, *before, *path)

    def allocate(
        self, storage: StorageClass, kind: ScalarKind, lanes: int, length: int, wide: int
    ) -> BufferPlace:
        """An array of private or shared memory, of so many elements.

        Args:
            storage: of it.
            kind: of its scalars.
            lanes: scalars of an element.
            length: elements.
            wide: scalars of each vector that the array consists of, or 1.
        """
        size = -(-length * lanes // wide)
        of = self.types
        array = of.array(kind, size) if wide == 1 else of.vectors(kind, wide, size)
        if storage is StorageClass.FUNCTION:
            variable = self.body.private(array)
        else:
            variable = self.module.variable(self.types.pointer(storage, array), storage)
        return BufferPlace(variable, storage, kind, lanes, wide=wide)

    def input(self, which: int, axis: int) -> int:
        """A builtin number of a work-item along an axis, as uint32."""
        variable = self._input(which, self.types.vector(UINT32, 3))
        of = self.types.pointer(StorageClass.INPUT, self.types.scalar(UINT32))
        at = self.body.pure(Op.ACCESS_CHAIN, of, variable, self.constant(UINT32, axis))
        return self.body.pure(Op.LOAD, self.types.scalar(UINT32), at)

    def number(self, which: int) -> int:
        """A builtin number of a work-item's subgroup, or of the item in it, as uint32."""
        self.module.capabilities.add(Capability.GROUP_NON_UNIFORM)
        of = self.types.scalar(UINT32)
        return self.body.pure(Op.LOAD, of, self._input(which, of))

    def _input(self, which: int, of: int) -> int:
        if which not in self.inputs:
            pointer = self.types.pointer(StorageClass.INPUT, of)
            self.inputs[which] = self.module.variable(pointer, StorageClass.INPUT)
            self.module.decorate(self.inputs[which], Decoration.BUILT_IN, which)
        return self.inputs[which]

    def unknown(self, what: str) -> BuildError:
        """The error for an unsupported construct."""
        return BuildError(
            f"a kernel has {what}, which cannot be written as SPIR-V",
            where=self.name,
            hint="compile for another target, and report the model",
        )
