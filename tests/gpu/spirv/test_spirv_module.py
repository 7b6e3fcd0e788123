"""SPIR-V: the bytes of a device module, what kernels ask of a device, and what has no form."""

import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm.script import tirx as T  # noqa: N812

import odtc
from benchmarks.models.digits import bn_model, digits_model
from odtc.backends.kernels.common import parsed
from odtc.backends.spirv.assemble import Shader
from odtc.backends.spirv.build import spirv_code
from odtc.backends.spirv.opcodes import Capability
from odtc.backends.targets import parse_target
from odtc.core.errors import BuildError
from tests.gpu.elementwise import COUNT, on_vulkan
from tests.gpu.on_device import run_kernel
from tests.gpu.spirv.module_reader import HANDLE, Reader
from tests.gpu.spirv.spirv_tools import (
    binary,
    capabilities,
    check_valid,
    decorations,
    images,
    non_writable,
    read_only,
    storage_buffers,
    vectors_loaded,
    vectors_shared,
    vectors_stored,
)

SCALARS = {(0, 32, 1), (0, 64, 1)}
# pyright: reportInvalidTypeForm=false


def assembled(kernel: tvm.tirx.PrimFunc, *, images: bool = False) -> None:
    """Compiles a kernel, which is assembled on the way."""
    with spirv_code(images=images):
        tvm.compile(tvm.IRModule({"main": kernel}), parse_target("host-vulkan").to_tvm())


def test_the_format(tmp_path: Path, made: list[Shader]) -> None:
    """Format, kernels with types of arguments and launch sizes, then the SPIR-V of each."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", "android-vulkan", batch=8)
    library = artifact._bundle.library.read_bytes()
    reader = Reader(library, library.index(struct.pack("<Q6s", 6, b"vulkan") + bytes([len(made)])))
    assert reader.text() == "vulkan"
    kernels = reader.kernels()
    words = {shader.name: binary(shader) for shader in made}
    for _ in range(*reader.take("<Q")):
        name = reader.text()
        size, flags, count = reader.take("<QIQ")
        assert size == 4 + 8 + 4 * count
        code = reader.data[reader.at : reader.at + 4 * count]
        reader.at += 4 * count
        assert code == words.pop(name)
        assert struct.unpack_from("<2I", code) == (0x07230203, 0x00010300)
        assert flags == 0
        # Buffers come first, then numbers.
        types = kernels.pop(name)
        assert types == sorted(types, key=lambda each: each != HANDLE)
        assert set(types) - {HANDLE} <= SCALARS
    assert not words
    assert not kernels


def test_kernels_of_phones_need_no_more_than_any_phone_has(
    tmp_path: Path, made: list[Shader]
) -> None:
    """No arithmetic of 8, 16 or 64 bits, which Adreno and Mali lack here and there.

    What max pooling chose is stored as bytes.
    """
    onnx.save(digits_model(), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", "android-vulkan", batch=8)
    assert made
    for shader in made:
        assert capabilities(shader) <= {1, 4448}, shader.name


def test_bytes_are_stored_without_being_computed_with(made: list[Shader]) -> None:
    """That needs only buffers of bytes, which more devices have than arithmetic."""
    given = np.arange(COUNT, dtype="uint8")
    found = on_vulkan(lambda a: a.astype("int32") * 3, [given], "uint8")
    np.testing.assert_array_equal(found, (given.astype("int32") * 3).astype("uint8"))
    (shader,) = made
    assert capabilities(shader) == {1, 4448}
    check_valid(shader)


def test_halves_are_stored_without_being_computed_with(made: list[Shader]) -> None:
    given = np.linspace(-2, 2, COUNT).astype("float16")
    found = on_vulkan(lambda a: a.astype("float32") * 3.0, [given], "float16")
    np.testing.assert_allclose(found, given * np.float16(3), rtol=1e-3)
    (shader,) = made
    assert capabilities(shader) == {1, 4433}
    check_valid(shader)


@pytest.mark.parametrize("count", [16, 17, 40])
def test_many_numbers_are_a_uniform_buffer(count: int, made: list[Shader]) -> None:
    """128 bytes of push constants are what each device has: 16 numbers."""
    names = [f"n{i}" for i in range(count)]
    numbers = ", ".join(f"{name}: T.int32" for name in names)
    source = "\n".join(
        [
            "@T.prim_func(s_tir=True)",
            f"def main(out: T.Buffer(({count},), 'int32'), {numbers}):",
            "    T.func_attr({'global_symbol': 'main', 'tirx.noalias': True})",
            "    block = T.launch_thread('blockIdx.x', 1)",
            "    item = T.launch_thread('threadIdx.x', 1)",
            *(f"    out[{i}] = {n} + item + block" for i, n in enumerate(names)),
        ]
    )
    kernel = tvm.script.from_source(source, {"T": T})
    assembled(kernel)
    (shader,) = made
    assert shader.interface.is_uniform == (count > 16)
    check_valid(shader)


def test_buffers_that_are_read_only_say_so(made: list[Shader]) -> None:
    """A buffer that is read and written is none of them, nor one that is written through a view."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(
        read: T.Buffer((64,), "int32"),
        both: T.Buffer((64,), "int32"),
        viewed: T.Buffer((64,), "int32"),
        out: T.Buffer((64,), "int32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        near = T.alloc_buffer((32,), "int32", scope="shared")
        view = T.decl_buffer((2, 32), "int32", data=viewed.data)
        near[item] = read[block * 32 + item] + both[block * 32 + item]
        both[block * 32 + item] = 1
        view[block, item] = 2
        out[block * 32 + item] = near[item]

    assembled(main)
    (shader,) = made
    # Buffers are in the order in which the kernel that TVM makes of it uses them.
    assert len(shader.interface.arguments) == 4
    assert len(read_only(shader)) == 1
    check_valid(shader)


def test_vectors_are_stored_at_once_where_nothing_reaches_their_scalars(made: list[Shader]) -> None:
    """Two variables that are one buffer, of which one is written through, would have to say so."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(
        read: T.Buffer((256,), "float32"),
        whole: T.Buffer((256,), "float32"),
        mixed: T.Buffer((256,), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        at: T.let = block * 128 + item * 4
        whole[T.Ramp(at, 1, 4)] = read[T.Ramp(at, 1, 4)]
        mixed[T.Ramp(at, 1, 4)] = read[T.Ramp(at, 1, 4)]
        mixed[at] = T.float32(1)

    assembled(main)
    (shader,) = made
    assert vectors_stored(shader) == 1
    check_valid(shader)


def test_what_is_read_in_both_ways_or_written_stays_a_buffer(made: list[Shader]) -> None:
    """Nor is a vector of two read from an image; one of float16 is."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(
        whole: T.Buffer((256,), "float32"),
        mixed: T.Buffer((256,), "float32"),
        pairs: T.Buffer((256,), "float32"),
        halves: T.Buffer((256,), "float16"),
        changed: T.Buffer((256,), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        at: T.let = block * 128 + item * 4
        changed[T.Ramp(at, 1, 4)] = changed[T.Ramp(at, 1, 4)] + whole[T.Ramp(at, 1, 4)]
        changed[T.Ramp(at, 1, 4)] = changed[T.Ramp(at, 1, 4)] + mixed[T.Ramp(at, 1, 4)]
        changed[T.Ramp(at, 1, 4)] = changed[T.Ramp(at, 1, 4)] * T.Broadcast(mixed[at], 4)
        changed[T.Ramp(at, 1, 2)] = pairs[T.Ramp(at, 1, 2)]
        changed[T.Ramp(at, 1, 4)] = T.Cast("float32x4", halves[T.Ramp(at, 1, 4)])

    assembled(main, images=True)
    (shader,) = made
    count = len(shader.interface.arguments)
    assert count == 5
    found = images(shader)
    assert len(found) == 2
    assert found == {count + constant: constant for constant in found.values()}
    (halves,) = images(shader, "halves")
    assert halves in found
    assert Capability.SAMPLED_BUFFER in capabilities(shader)
    check_valid(shader)


def test_views_of_shared_memory_are_read_in_vectors(made: list[Shader]) -> None:
    """TVM makes views where two allocations live one after the other."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(read: T.Buffer((256,), "float32"), out: T.Buffer((256,), "float32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        near = T.alloc_buffer((128,), "float32", scope="shared")
        view = T.decl_buffer((4, 32), "float32", data=near.data, scope="shared")
        near[item] = read[block * 32 + item]
        T.tvm_storage_sync("shared")
        out[T.Ramp(item * 4, 1, 4)] = view[0, T.Ramp(item // 8 * 4, 1, 4)]

    assembled(main)
    (shader,) = made
    assert vectors_shared(shader) == 1
    check_valid(shader)


def test_drivers_are_promised_what_is_only_read(tmp_path: Path, made: list[Shader]) -> None:
    """Neither Restrict nor Aliased; and NonWritable by types that no other buffer has.

    Where buffers that are written had the same type, NVIDIA's driver computed wrongly.
    """
    onnx.save(bn_model(), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", "host-vulkan", batch=8)
    assert any(read_only(shader) for shader in made)
    for shader in made:
        assert not decorations(shader) & {19, 20, 24}, shader.name
        assert non_writable(shader) == read_only(shader), shader.name
        structs = [struct for _, struct in storage_buffers(shader)]
        assert len(set(structs)) == len(structs), shader.name
        check_valid(shader)


def test_control_flow(made: list[Shader]) -> None:
    """Loops within loops and conditions, loops that run never, a `while`, shared memory."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(a: T.Buffer((64,), "int32"), out: T.Buffer((64,), "int32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        near = T.alloc_buffer((32,), "int32", scope="shared")
        total = T.alloc_buffer((1,), "int32", scope="local")
        near[item] = a[block * 32 + item]
        T.tvm_storage_sync("shared")
        total[0] = 0
        total[0] = near[31 - item]
        turns: T.let = total[0]
        total[0] = 0
        for i in range(turns):
            if i % 3 == 0:
                for j in T.unroll(2):
                    total[0] = total[0] + i * j
            elif i % 3 == 1:
                total[0] = total[0] - 1
        while total[0] > 50:
            total[0] = total[0] // 2
        out[block * 32 + item] = total[0]

    given = np.random.default_rng(0).integers(-2, 30, 64).astype("int32")
    expected = []
    for at in range(64):
        total = 0
        for i in range(given[at // 32 * 32 + 31 - at % 32]):
            total += i if i % 3 == 0 else -(i % 3 == 1)
        while total > 50:
            total //= 2
        expected.append(total)
    np.testing.assert_array_equal(
        run_kernel("vulkan", main, [given], (64,), "int32", planned=False), expected
    )
    (shader,) = made
    check_valid(shader)


def test_what_has_no_form() -> None:
    @parsed.prim_func(private=False, s_tir=True)
    def main(out: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        item = T.launch_thread("threadIdx.x", 64)
        out[item] = T.call_pure_extern("float32", "bessel", out[item])

    assert _refusal(main) == (
        "a kernel has a call of bessel, which cannot be written as SPIR-V\n"
        "  where: main_kernel\n"
        "  hint: compile for another target, and report the model"
    )


def _refusal(kernel: tvm.tirx.PrimFunc) -> str:
    with pytest.raises(BuildError) as error:
        assembled(kernel)
    return str(error.value)


def test_vectors_lie_where_a_sum_with_signs_says(made: list[Shader]) -> None:
    """Terms that vectors divide, and such as do so only together; some are taken away."""

    @parsed.prim_func(private=False, s_tir=True)
    def main(
        read: T.Buffer((512,), "float32"),
        steps: T.Buffer((64,), "int32"),
        written: T.Buffer((256,), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", 2)
        item = T.launch_thread("threadIdx.x", 32)
        at: T.let = block * 128 + item * 4
        step: T.let = steps[block * 32 + item]
        written[T.Ramp(at, 1, 4)] = read[T.Ramp(300 - (item * 8 - step) - step * 5, 1, 4)]

    read = np.arange(512, dtype=np.float32)
    steps = np.random.default_rng(0).integers(-10, 11, 64).astype(np.int32)
    first = 300 - np.tile(np.arange(32), 2) * 8 - 4 * steps
    found = run_kernel("vulkan", main, [read, steps], (256,), planned=False)
    np.testing.assert_array_equal(found, read[first[:, None] + np.arange(4)].ravel())
    (shader,) = made
    assert vectors_loaded(shader) == 1
