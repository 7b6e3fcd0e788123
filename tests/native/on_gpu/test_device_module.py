"""The kernels of a library as the native runtime reads them; it trusts no length in there."""

import struct
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import odtc
from odtc.runtime_rpc.native.build import GPUS, compiler_of_c
from tests.numeric.mlp import mlp_artifact

EDITED = 3000


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("reader") / "read_modules"
    runtime, gpu, *_ = GPUS.folders
    sources = (Path(__file__).with_name("read_modules.c"), gpu / "device_module.c")
    command = [*compiler_of_c(), "-std=c11", "-g", "-O1", "-fsanitize=address,undefined"]
    command += ["-fno-sanitize-recover=all", f"-I{runtime}", f"-I{gpu}", *map(str, sources)]
    subprocess.run([*command, str(runtime / "problem.c"), "-o", str(output)], check=True)
    return output


def modules_in(library: BinaryIO) -> bytes:
    """What TVM writes of a library's modules, without the number of its bytes."""
    elf = ELFFile(library)
    (at,) = (
        symbol["st_value"]
        for section in elf.iter_sections()
        if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
        if symbol.name == "__tvm_ffi__library_bin" and section.name == ".dynsym"
    )
    (place,) = elf.address_offsets(at)
    library.seek(place)
    (count,) = struct.unpack("<Q", library.read(8))
    return library.read(count)


@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
def test_it_is_read_and_no_edit_is_trusted(kind: str, reader: Path, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), target=f"host-{kind}")
    with artifact._bundle.library.open("rb") as library:
        modules = modules_in(library)
    (tmp_path / "modules").write_bytes(modules)
    command = [str(reader), str(tmp_path / "modules"), str(EDITED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert not done.returncode, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} == {kind}
    assert any("matmul" in row[1] for row in rows)
    for _, _, buffers, _, sizes, code in rows:
        assert int(buffers) >= 1
        assert 1 <= int(sizes) <= 6
        assert int(code) > 100


def text(word: bytes) -> bytes:
    return struct.pack("<Q", len(word)) + word


def modules_of(kernels: int, types: list[tuple[int, int, int]], tags: list[bytes]) -> bytes:
    """Modules with a kernel of OpenCL, which claim so many; types are code, bits and lanes."""
    arguments = b"".join(struct.pack("<BBH", *each) for each in types)
    kernel = text(b"k") + text(b"k") + struct.pack("<Q", len(types)) + arguments
    kernel += struct.pack("<Q", len(tags)) + b"".join(map(text, tags)) + bytes(8)
    source = text(b"// Function: k\n__kernel void k() {}")
    content = text(b"cl") + struct.pack("<Q", kernels) + kernel + source
    places = struct.pack("<3Q", 2, 0, 0) + struct.pack("<Q", 0)
    return places + text(b"opencl") + text(content)


HANDLE, INT32, FLOAT16, PAIR = (3, 64, 1), (0, 32, 1), (2, 16, 1), (0, 32, 2)
DAMAGED = "the kernels of the library are not what odtc wrote"


@pytest.mark.parametrize(
    ("kernels", "types", "tags", "says"),
    [
        (1, [HANDLE, INT32], [b"blockIdx.x"], "opencl k 1 1 1 20"),
        (1 << 32, [HANDLE], [b"blockIdx.x"], DAMAGED),
        ((1 << 64) - 1, [HANDLE], [b"blockIdx.x"], DAMAGED),
        (2, [HANDLE], [b"blockIdx.x"], DAMAGED),
        (1, [HANDLE], 7 * [b"blockIdx.x"], DAMAGED),
        (1, [HANDLE], [b"cluster.x"], "the kernel k is launched by cluster.x"),
        *(
            (
                1,
                [HANDLE, each],
                [b"blockIdx.x"],
                f"the kernel k has an argument of code {code}, "
                f"{bits} bits and {lanes} lanes after its buffers",
            )
            for each in (FLOAT16, PAIR, (4, 16, 1), (0, 4, 1))
            for code, bits, lanes in (each,)
        ),
        (
            1,
            [INT32, HANDLE],
            [b"blockIdx.x"],
            "the kernel k has an argument of code 3, 64 bits and 1 lanes after its buffers",
        ),
    ],
)
def test_what_a_kernel_may_be_given(
    kernels: int,
    types: list[tuple[int, int, int]],
    tags: list[bytes],
    says: str,
    reader: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "modules").write_bytes(modules_of(kernels, types, tags))
    done = subprocess.run(
        [str(reader), str(tmp_path / "modules"), "50"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == says, done.stderr
    assert done.returncode == (0 if says.startswith("opencl") else 1), done.stderr


def test_a_library_for_a_cpu_has_none(reader: Path, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    with artifact._bundle.library.open("rb") as library:
        (tmp_path / "modules").write_bytes(modules_in(library))
    done = subprocess.run(
        [str(reader), str(tmp_path / "modules"), "1"], capture_output=True, text=True, check=False
    )
    said = (done.returncode, done.stdout.strip())
    assert said == (1, "the library has no kernels for a GPU"), done.stderr
