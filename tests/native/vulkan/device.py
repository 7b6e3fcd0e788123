"""The table of functions of `gpu.h` for Python: a device, its buffers, and lists of launches."""

import ctypes as c
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from odtc.backends.spirv.assemble import Shader
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER

GPU = FOLDER.with_name("gpu")
NO_MEMORY, KERNEL, UNSUPPORTED, DEVICE, DAMAGED = 5, 11, 12, 15, 3
_FLAGS = ("-std=c11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")


class _Problem(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 512)]


class _Options(c.Structure):
    _fields_ = [("number", c.c_int), ("cache", c.c_char_p)]


class _About(c.Structure):
    _fields_ = [
        ("name", c.c_char * 256),
        ("driver", c.c_char * 128),
        ("largest_buffer", c.c_uint64),
        ("memory", c.c_uint64),
        ("most_items", c.c_uint64),
    ]


class _Type(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class _Use(c.Structure):
    _fields_ = [("most_bytes", c.c_uint64), ("is_alone", c.c_int)]


class _Kernel(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("buffers", c.c_uint32),
        ("numbers", c.c_uint32),
        ("types", c.POINTER(_Type)),
        ("flags", c.c_uint32),
        ("code", c.c_void_p),
        ("code_bytes", c.c_size_t),
        ("uses", c.POINTER(_Use)),
    ]


class _Range(c.Structure):
    _fields_ = [("offset", c.c_uint64), ("bytes", c.c_uint64)]


class _Launch(c.Structure):
    _fields_ = [
        ("kernel", c.c_uint32),
        ("buffers", c.POINTER(c.c_void_p)),
        ("ranges", c.POINTER(_Range)),
        ("numbers", c.POINTER(c.c_uint64)),
        ("groups", c.c_uint32 * 3),
        ("items", c.c_uint32 * 3),
    ]


class _Times(c.Structure):
    _fields_ = [("begin", c.c_int64), ("end", c.c_int64)]


class _Read(c.Structure):
    _fields_ = [
        ("items", c.c_uint32 * 3),
        ("read_only", c.c_uint64),
        ("offered", c.c_uint64),
        ("halves", c.c_uint64),
        ("shared_bytes", c.c_uint64),
    ]


class _Figure(c.Structure):
    _fields_ = [("name", c.c_char * 64), ("value", c.c_double)]


class _Figures(c.Structure):
    _fields_ = [("count", c.c_size_t), ("each", _Figure * 32)]


_NAMES = (
    *("open", "close", "load", "describe", "allocate", "free_buffer", "write", "read", "fill"),
    *("put", "take", "copy", "prepare", "free_list", "run", "wait", "set_timed", "times"),
)


class _Interface(c.Structure):
    _fields_ = [("name", c.c_char_p), ("module", c.c_char_p), *((n, c.c_void_p) for n in _NAMES)]


class GpuError(Exception):
    """What a function of the table notes."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Launch:
    """One launch: the number of its kernel, buffers, numbers, groups, and bytes of each buffer."""

    kernel: int
    buffers: Sequence[int]
    numbers: Sequence[int]
    groups: tuple[int, int, int]
    ranges: Sequence[tuple[int, int]] | None = None


@cache
def library(*flags: str) -> Path:
    """The interface as a library, with what it needs of the runtime; once for each process."""
    output = Path(tempfile.mkdtemp()) / "libvulkan-interface.so"
    runtime = ("problem", "memory", "new_file", "sha256", "sha256_by_cpu", "text")
    sources = [*sorted((GPU / "vulkan").glob("*.c")), *(FOLDER / f"{n}.c" for n in runtime)]
    sources.append(GPU / "figures.c")
    folders = [f"-I{each}" for each in (GPU, FOLDER)]
    command = [*cc_command(), *_FLAGS, *flags, *folders, *map(str, sources), "-o", str(output)]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    return output


class Device:
    """An open device; leaving it as a context closes it.

    Attributes:
        name: of the device.
        largest: bytes of a buffer, at most.
    """

    def __init__(self, number: int = 0, folder: Path | None = None) -> None:
        self._table = _Interface.in_dll(c.CDLL(str(library())), "ODTC_VULKAN")
        self._gpu, self._about = c.c_void_p(), _About()
        self._items: list[tuple[int, ...]] = []
        options = _Options(number, str(folder).encode() if folder else None)
        self._call("open", c.byref(options), c.byref(self._gpu), c.byref(self._about))
        self.name = self._about.name.decode()
        self.driver = self._about.driver.decode()
        self.largest, self.memory = self._about.largest_buffer, self._about.memory

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self._do("close", self._gpu)

    def load(self, *shaders: Shader, most_bytes: int | None = None) -> None:
        """Loads kernels; the groups of each have the items that its code says.

        Args:
            shaders: the kernels.
            most_bytes: of the buffers that they are given; None where that is not known.
        """
        self._items = [_items(shader) for shader in shaders]
        self.load_as(*shaders, most_bytes=most_bytes)

    def load_as(self, *shaders: Shader, most_bytes: int | None = None) -> None:
        """Loads kernels of which nothing can be launched."""
        given = [_given(shader, most_bytes) for shader in shaders]
        kernels = (_Kernel * len(shaders))(*given)
        self._call("load", self._gpu, kernels, c.c_size_t(len(shaders)))

    def read_only(self, shader: Shader) -> set[int]:
        """The bindings that launches of a kernel are taken to read only."""
        return {n for n in range(64) if self._read(shader).read_only >> n & 1}

    def images(self, shader: Shader) -> set[int]:
        """The buffers that a kernel could read as images."""
        return {n for n in range(64) if self._read(shader).offered >> n & 1}

    def halves(self, shader: Shader) -> set[int]:
        """Those of them that are images of float16."""
        return {n for n in range(64) if self._read(shader).halves >> n & 1}

    def figures(self, number: int, shader: Shader) -> dict[str, float]:
        """What is known of a kernel that was loaded from a shader."""
        found = _Figures()
        given = (self._gpu, c.c_uint32(number), c.byref(_given(shader)), c.byref(found))
        self._call("describe", *given)
        return {each.name.decode(): each.value for each in found.each[: found.count]}

    def shared_bytes(self, shader: Shader) -> int:
        """Bytes that the work-items of a group share, as the SPIR-V has them."""
        return self._read(shader).shared_bytes

    def _read(self, shader: Shader) -> _Read:
        read, problem = _Read(), _Problem()
        function = c.CDLL(str(library())).odtc_vk_read_shader
        given = (self._gpu, c.byref(_given(shader)), c.byref(read), c.byref(problem))
        if function(*given):
            raise GpuError(problem.code, problem.text.decode())
        return read

    def allocate(self, size: int) -> int:
        buffer = c.c_void_p()
        self._call("allocate", self._gpu, c.c_uint64(size), c.byref(buffer))
        assert buffer.value
        return buffer.value

    def buffer(self, array: np.ndarray) -> int:
        """A new buffer with the bytes of an array."""
        buffer = self.allocate(array.nbytes)
        self.write(buffer, array)
        return buffer

    def free(self, buffer: int) -> None:
        self._do("free_buffer", self._gpu, c.c_void_p(buffer))

    def write(self, buffer: int, array: np.ndarray, offset: int = 0) -> None:
        data = array.ctypes.data_as(c.c_void_p)
        to = (self._gpu, c.c_void_p(buffer), c.c_uint64(offset))
        self._call("write", *to, data, c.c_uint64(array.nbytes))

    def read(self, buffer: int, shape: int, dtype: str = "int32", offset: int = 0) -> np.ndarray:
        array = np.zeros(shape, dtype)
        data = array.ctypes.data_as(c.c_void_p)
        of = (self._gpu, c.c_void_p(buffer), c.c_uint64(offset))
        self._call("read", *of, data, c.c_uint64(array.nbytes))
        return array

    def fill(self, buffer: int, offset: int, size: int, pattern: int) -> None:
        to = (self._gpu, c.c_void_p(buffer), c.c_uint64(offset))
        self._call("fill", *to, c.c_uint64(size), c.c_uint32(pattern))

    def put(self, buffer: int, array: np.ndarray, offset: int = 0) -> None:
        given = array.copy()
        to = (self._gpu, c.c_void_p(buffer), c.c_uint64(offset))
        self._call("put", *to, given.ctypes.data_as(c.c_void_p), c.c_uint32(given.nbytes))
        given[...] = 0

    def take(self, buffer: int, array: np.ndarray, offset: int = 0) -> None:
        """The array has it after the next `wait`."""
        data = array.ctypes.data_as(c.c_void_p)
        of = (self._gpu, c.c_void_p(buffer), c.c_uint64(offset))
        self._call("take", *of, data, c.c_uint32(array.nbytes))

    def copy(self, to: int, offset: int, of: int, of_offset: int, size: int) -> None:
        places = (c.c_void_p(to), c.c_uint64(offset), c.c_void_p(of), c.c_uint64(of_offset))
        self._call("copy", self._gpu, *places, c.c_uint64(size))

    def prepare(self, launches: Sequence[Launch]) -> int:
        given, found = (_Launch * len(launches))(), c.c_void_p()
        for to, launch in zip(given, launches, strict=True):
            to.kernel = launch.kernel
            to.buffers = (c.c_void_p * len(launch.buffers))(*launch.buffers)
            to.numbers = (c.c_uint64 * len(launch.numbers))(*launch.numbers)
            to.groups[:], to.items[:] = launch.groups, self._items[launch.kernel]
            if launch.ranges is not None:
                to.ranges = (_Range * len(launch.ranges))(*launch.ranges)
        self._call("prepare", self._gpu, given, c.c_size_t(len(launches)), c.byref(found))
        assert found.value
        return found.value

    def run(self, made: int) -> None:
        self._call("run", self._gpu, c.c_void_p(made))

    def wait(self, made: int | None = None) -> None:
        self._call("wait", self._gpu, c.c_void_p(made))

    def free_list(self, made: int) -> None:
        self._do("free_list", self._gpu, c.c_void_p(made))

    def set_timed(self, is_timed: bool) -> None:
        self._call("set_timed", self._gpu, c.c_int(is_timed))

    def times(self, made: int, count: int) -> list[tuple[int, int]]:
        found = (_Times * count)()
        self._call("times", self._gpu, c.c_void_p(made), found)
        return [(each.begin, each.end) for each in found]

    def _call(self, name: str, *arguments: Any) -> None:
        """A function that may fail; it gets a problem to note why.

        Raises:
            GpuError: it failed.
        """
        problem = _Problem()
        function = c.CFUNCTYPE(c.c_int)(getattr(self._table, name))
        code = function(*arguments, c.byref(problem))
        assert code == problem.code
        if code:
            raise GpuError(code, problem.text.decode())

    def _do(self, name: str, *arguments: Any) -> None:
        c.CFUNCTYPE(None)(getattr(self._table, name))(*arguments)


def _given(shader: Shader, most_bytes: int | None = None) -> _Kernel:
    types = [each for each in shader.interface.arguments if each[0] != 3]
    words = (c.c_uint32 * len(shader.words))(*shader.words)
    buffers = len(shader.interface.arguments) - len(types)
    uses = None if most_bytes is None else (_Use * buffers)(*[_Use(most_bytes, 1)] * buffers)
    return _Kernel(
        shader.name.encode(),
        buffers,
        len(types),
        (_Type * len(types))(*(_Type(*each) for each in types)),
        shader.interface.is_uniform | shader.subgroup << 8,
        c.cast(words, c.c_void_p),
        c.sizeof(words),
        uses,
    )


def _items(shader: Shader) -> tuple[int, ...]:
    """Items of a group along each axis, as OpExecutionMode has them."""
    at = 5
    while shader.words[at] & 0xFFFF != 16:
        at += shader.words[at] >> 16
    return shader.words[at + 3 : at + 6]
