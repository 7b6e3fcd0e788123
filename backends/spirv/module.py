"""A SPIR-V module while it is written: ids, and sections in the order that the format requires.

A module is words of 32 bits: a header, then instructions, each with its length and opcode in front.
Types and constants may be declared once only, so what is asked for again has the same id.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odtc.backends.spirv.opcodes import (
    GL_COMPUTE,
    GLSL450_MODEL,
    LOCAL_SIZE,
    LOGICAL_ADDRESSING,
    VULKAN_MODEL,
    Capability,
    Decoration,
    Op,
    StorageClass,
)

_MAGIC, _VERSION = 0x07230203, 0x00010300
# Part of SPIR-V 1.5; before that, the extension has to be declared.
_EXTENSIONS = {
    Capability.STORAGE_BUFFER_8BIT: "SPV_KHR_8bit_storage",
    Capability.VULKAN_MEMORY_MODEL: "SPV_KHR_vulkan_memory_model",
    Capability.COOPERATIVE_MATRIX: "SPV_KHR_cooperative_matrix",
}


def instruction(op: Op, *operands: int) -> list[int]:
    """The words of an instruction."""
    return [(len(operands) + 1) << 16 | op, *operands]


def text(value: str) -> list[int]:
    """The words of a string, which ends in a zero byte."""
    data = value.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


@dataclass(frozen=True)
class EntryPoint:
    """The entry point of a kernel, as a device needs it.

    Attributes:
        name: of the kernel.
        inputs: ids of the variables that the device sets.
        group: work-items of a work-group, along three axes.
    """

    name: str
    inputs: Sequence[int]
    group: Sequence[int]


class Module:
    """All of a module but the code of its one function.

    Attributes:
        glsl: id of the instruction set GLSL.std.450.
        capabilities: that the module requires.
    """

    def __init__(self) -> None:
        self._last = 0
        self._known: dict[tuple[int, ...], int] = {}
        self._names: list[int] = []
        self._decorations: list[int] = []
        self._declarations: list[int] = []
        self.capabilities = {Capability.SHADER}
        self.glsl = self.new_id()

    @property
    def is_of_vulkan(self) -> bool:
        """Whether its memory is by Vulkan's model, and not by GLSL's."""
        return Capability.VULKAN_MEMORY_MODEL in self.capabilities

    def new_id(self) -> int:
        """An unused id."""
        self._last += 1
        return self._last

    def type(self, op: Op, *operands: int) -> int:
        """The id of a type, declared at most once."""
        return self._interned((op, *operands), lambda new: instruction(op, new, *operands))

    def runtime_array(self, element: int, size: int) -> int:
        """The type of an array of elements of so many bytes, as long as its buffer."""
        last = self._last
        array = self.type(Op.TYPE_RUNTIME_ARRAY, element)
        if array > last:
            self.decorate(array, Decoration.ARRAY_STRIDE, size)
        return array

    def constant(self, op: Op, of: int, *words: int) -> int:
        """The id of a constant of type `of`, declared at most once."""
        return self._interned((op, of, *words), lambda new: instruction(op, of, new, *words))

    def switch(self, of: int, number: int) -> int:
        """A constant that is false, unless a pipeline says otherwise by its number."""
        new = self.new_id()
        self._declarations += instruction(Op.SPEC_CONSTANT_FALSE, of, new)
        self.decorate(new, Decoration.SPEC_ID, number)
        return new

    def struct(self, *members: int) -> int:
        """A type of its own, even if another has the same members: decorations may differ."""
        new = self.new_id()
        self._declarations += instruction(Op.TYPE_STRUCT, new, *members)
        return new

    def variable(self, pointer: int, storage: StorageClass) -> int:
        """A variable outside of the function, of a pointer's type."""
        new = self.new_id()
        self._declarations += instruction(Op.VARIABLE, pointer, new, storage)
        return new

    def name(self, target: int, name: str) -> None:
        """Names a variable for those who read the module; to a driver a name means nothing."""
        self._names += instruction(Op.NAME, target, *text(name))

    def decorate(self, target: int, decoration: Decoration, *operands: int) -> None:
        """Decorates a type or a variable."""
        self._decorations += instruction(Op.DECORATE, target, decoration, *operands)

    def place_member(self, struct: int, member: int, offset: int) -> None:
        """Sets the byte offset of a struct's member."""
        self._decorations += instruction(
            Op.MEMBER_DECORATE, struct, member, Decoration.OFFSET, offset
        )

    def forbid_writing(self, struct: int) -> None:
        """Says that nothing is stored in the one member of a struct."""
        self._decorations += instruction(Op.MEMBER_DECORATE, struct, 0, Decoration.NON_WRITABLE)

    def words(self, entry: EntryPoint, code: Sequence[int]) -> list[int]:
        """The whole module, around the code of its function."""
        void = self.type(Op.TYPE_VOID)
        signature = self.type(Op.TYPE_FUNCTION, void)
        function = self.new_id()
        words = []
        for capability in sorted(self.capabilities):
            words += instruction(Op.CAPABILITY, capability)
        for capability in sorted(self.capabilities & _EXTENSIONS.keys()):
            words += instruction(Op.EXTENSION, *text(_EXTENSIONS[capability]))
        words += instruction(Op.EXT_INST_IMPORT, self.glsl, *text("GLSL.std.450"))
        model = VULKAN_MODEL if self.is_of_vulkan else GLSL450_MODEL
        words += instruction(Op.MEMORY_MODEL, LOGICAL_ADDRESSING, model)
        words += instruction(Op.ENTRY_POINT, GL_COMPUTE, function, *text(entry.name), *entry.inputs)
        words += instruction(Op.EXECUTION_MODE, function, LOCAL_SIZE, *entry.group)
        words += self._names + self._decorations + self._declarations
        words += instruction(Op.FUNCTION, void, function, 0, signature)
        words += [*code, *instruction(Op.RETURN), *instruction(Op.FUNCTION_END)]
        return [_MAGIC, _VERSION, 0, self._last + 1, 0, *words]

    def _interned(self, key: tuple[int, ...], declare: Callable[[int], list[int]]) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new_id()
            self._declarations += declare(found)
        return found
