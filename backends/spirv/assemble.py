"""Assembles kernels, as TVM gives them to a code generator, to SPIR-V and a device module."""

import struct
from dataclasses import dataclass

import tvm
from tvm import tirx

from odtc.backends.spirv.expressions import EXPRESSIONS
from odtc.backends.spirv.interface import Interface, declare, mark_read_only, offer_images
from odtc.backends.spirv.kernel import KernelWriter, Translators
from odtc.backends.spirv.memory.shared import only_read_by_fours, only_vectors, read_in_vectors
from odtc.backends.spirv.module import EntryPoint
from odtc.backends.spirv.statements import STATEMENTS

_TRANSLATORS = Translators(EXPRESSIONS, STATEMENTS)
# Of the device module: scalars lie in a uniform buffer; and where the size of subgroups stands, if
# these multiply matrices.
_UNIFORM_FLAG, _SUBGROUP_SHIFT = 1, 8


@dataclass(frozen=True)
class Shader:
    """A kernel as SPIR-V.

    Attributes:
        name: of the kernel.
        interface: of a launch.
        launch: names of the sizes of a launch, in the order of the arguments that give them.
        words: the module.
        subgroup: items of each subgroup, if these multiply matrices; else 0.
    """

    name: str
    interface: Interface
    launch: tuple[str, ...]
    words: tuple[int, ...]
    subgroup: int = 0


def assemble(function: tirx.PrimFunc, *, images: bool = False) -> Shader:
    """One kernel, which may be told to read images.

    Raises:
        BuildError: it has something that cannot be written as SPIR-V.
    """
    name = str(function.attrs["global_symbol"])
    kernel = KernelWriter(name, _TRANSLATORS)
    kernel.read_in_vectors = read_in_vectors(function)
    interface = declare(kernel, function)
    kernel.only_vectors = {kernel.buffers[each].binding for each in only_vectors(function)}
    if images:
        offer_images(kernel, interface, only_read_by_fours(function))
    kernel.run(function.body)
    mark_read_only(kernel)
    entry = EntryPoint(name, list(kernel.inputs.values()), kernel.group)
    words = kernel.module.words(entry, kernel.body.words())
    launch = tuple(str(each) for each in function.attrs["tirx.kernel_launch_params"])
    subgroup = kernel.group[0] if kernel.matrices else 0
    return Shader(name, interface, launch, tuple(words), subgroup)


def device_module(module: tvm.IRModule, *, images: bool = False) -> bytes:
    """The bytes of a device module with all kernels, as TVM writes and reads it.

    Little endian; a string is its length as u64 and its bytes:

        str "vulkan" | u64 n, n x (str key, kernel) | u64 n, n x (str key, str code)
        kernel: str name | u64 n, n x {u8 code, u8 bits, u16 lanes} | u64 n, n x str launch size
                | u64 n, n x i32 zero
        code:   u32 flags, u64 words, words x u32
    """
    shaders = [
        assemble(function, images=images)
        for _, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
    ]
    kernels = [_string(each.name) + _described(each) for each in shaders]
    codes = [_string(each.name) + _string(_code(each)) for each in shaders]
    return _string("vulkan") + _list(kernels) + _list(codes)


def _described(shader: Shader) -> bytes:
    arguments = shader.interface.arguments
    return (
        _string(shader.name)
        + _list([struct.pack("<BBH", *each) for each in arguments])
        + _list([_string(each) for each in shader.launch])
        + _list([bytes(4)] * len(arguments))
    )


def _code(shader: Shader) -> bytes:
    flags = _UNIFORM_FLAG if shader.interface.is_uniform else 0
    flags |= shader.subgroup << _SUBGROUP_SHIFT
    head = struct.pack("<IQ", flags, len(shader.words))
    return head + struct.pack(f"<{len(shader.words)}I", *shader.words)


def _string(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _list(items: list[bytes]) -> bytes:
    return struct.pack("<Q", len(items)) + b"".join(items)
