"""`odtc.h` and `odtc_gpu.h` in ctypes: their structures, codes and functions, and the libraries."""

import ctypes as c
import functools
from enum import IntEnum
from typing import Any

from odtc.core.process.native_library import load_library
from odtc.runtime_rpc.native.build import CPUS, GPUS, runtime_library

# Of DLPack, by code and bits.
DTYPES = {
    **{(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64"},
    **{(1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64"},
    **{(2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (6, 8): "bool"},
}
# By their numbers in `odtc.h`.
ROLES = (
    *("input", "label", "learning-rate", "step", "parameter", "frozen", "statistic"),
    *("state", "average", "storage", "features"),
)
# Of a trainer; see `pool.h`.
MOST_THREADS = 64


class Code(IntEnum):
    """The code that a function of the runtime returns; see `odtc.h`."""

    OK = 0
    USAGE = 1
    NO_FILE = 2
    DAMAGED = 3
    MISFIT = 4
    NO_MEMORY = 5
    DATA = 6
    NOT_FINITE = 7
    BUDGET = 8
    CANCELLED = 9
    TORN = 10
    KERNEL = 11
    UNSUPPORTED = 12
    CPU = 13
    NO_ROOM = 14
    DEVICE = 15


class NativeError(Exception):
    """A function of the runtime did not do what it was asked for.

    Attributes:
        code: what it returned.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = Code(code)


class Options(c.Structure):
    """`odtc_options`."""

    _fields_ = (
        *((name, c.c_char_p) for name in ("program", "weights", "library", "storage")),
        ("threads", c.c_int),
        ("name", c.c_char_p),
        ("kernels", c.c_void_p),
        ("offload_state", c.c_size_t),
        ("unchecked_weights", c.c_int),
        ("gpu", c.c_int),
        ("gpu_cache", c.c_char_p),
        ("beside", c.c_char_p),
    )


class Tensor(c.Structure):
    """`odtc_tensor`."""

    _fields_ = (
        ("name", c.c_char_p),
        ("role", c.c_int),
        ("code", c.c_int),
        ("bits", c.c_int),
        ("rank", c.c_int),
        ("shape", c.POINTER(c.c_int64)),
        ("nbytes", c.c_size_t),
        ("data", c.c_void_p),
    )


class TimedCall(c.Structure):
    """`odtc_timed_call`."""

    _fields_ = (("kernel", c.c_char_p), ("begin", c.c_int64), ("end", c.c_int64))


class Found(c.Structure):
    """`odtc_found_gpu`."""

    _fields_ = (("name", c.c_char * 256), ("driver", c.c_char * 128), ("message", c.c_char * 512))


Handle = c.c_void_p
# Result and arguments of each function.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "odtc_open": (c.c_int, c.POINTER(Options), c.POINTER(Handle)),
    "odtc_close": (None, Handle),
    "odtc_message": (c.c_char_p, Handle),
    "odtc_tensor_at": (c.POINTER(Tensor), Handle, c.c_size_t),
    "odtc_step": (c.c_int, Handle, c.c_float, c.POINTER(c.c_double)),
    "odtc_step_over_features": (c.c_int, Handle, c.c_float, c.POINTER(c.c_double)),
    "odtc_steps": (c.c_int64, Handle),
    "odtc_evaluate": (c.c_int, Handle, c.c_char_p, c.c_int, c.POINTER(Tensor)),
    "odtc_evaluate_samples": (
        *(c.c_int, Handle, c.c_char_p, c.c_int),
        *(c.c_uint32, c.POINTER(Tensor)),
    ),
    "odtc_samples_of_step": (c.c_uint32, Handle),
    "odtc_evaluate_part": (c.c_int, Handle, c.c_char_p, c.c_int, c.POINTER(Tensor)),
    "odtc_part_at": (c.c_void_p, Handle, c.c_size_t),
    "odtc_set_length": (c.c_int, Handle, c.c_uint64),
    "odtc_length_at": (c.c_uint64, Handle, c.c_size_t),
    "odtc_set_budget": (c.c_int, Handle, c.c_uint64),
    "odtc_arena_bytes": (c.c_uint64, Handle),
    "odtc_held_bytes": (c.c_uint64, Handle),
    "odtc_set_threads": (c.c_int, Handle, c.c_int),
    "odtc_set_cores": (c.c_int, Handle, c.POINTER(c.c_int), c.c_int),
    "odtc_set_steps": (c.c_int, Handle, c.c_int64),
    "odtc_save": (c.c_int, Handle, c.c_char_p),
    "odtc_load": (c.c_int, Handle, c.c_char_p),
    "odtc_save_adapter": (c.c_int, Handle, c.c_char_p),
    "odtc_save_bytes": (c.c_int, Handle, c.POINTER(c.c_void_p), c.POINTER(c.c_size_t)),
    "odtc_load_bytes": (c.c_int, Handle, c.c_char_p, c.c_size_t),
    "odtc_cancel": (None, Handle, c.c_int),
    "odtc_start_clock": (c.c_int, Handle),
    "odtc_stop_clock": (
        *(c.c_int, Handle),
        *(c.POINTER(c.POINTER(TimedCall)), c.POINTER(c.c_size_t)),
    ),
    "odtc_fact": (c.c_char_p, Handle, c.c_char_p),
}
# What a step calls while it waits.
Waiting = c.CFUNCTYPE(None, c.c_void_p)
# Of the library with GPUs, beside those.
_OF_GPUS: dict[str, tuple[Any, ...]] = {
    "odtc_fetch": (c.c_int, Handle, c.c_size_t),
    "odtc_send": (c.c_int, Handle, c.c_size_t),
    "odtc_while_waiting": (None, Handle, Waiting, c.c_void_p),
    "odtc_send_next": (None, Handle),
    "odtc_send_next_from": (c.c_int, Handle, c.POINTER(c.c_void_p)),
    "odtc_drop_next": (None, Handle),
    "odtc_gpu_name": (c.c_char_p, Handle),
    "odtc_time_evaluation": (
        *(c.c_int, Handle, c.c_char_p),
        *(c.c_size_t, c.POINTER(c.c_int64)),
    ),
    "odtc_describe_kernels": (c.c_int, Handle, c.POINTER(c.c_char_p)),
    "odtc_find_gpu": (c.c_int, c.c_char_p, c.c_int, c.POINTER(Found)),
}


@functools.cache
def loaded_runtime() -> c.CDLL:
    """The runtime for CPUs, built and loaded once.

    Raises:
        BuildError: it cannot be built.
        OSError: it cannot be loaded.
    """
    return bind(load_library(runtime_library(CPUS)))


@functools.cache
def loaded_gpu_runtime() -> c.CDLL:
    """The same with GPUs."""
    return bind_gpus(load_library(runtime_library(GPUS)))


def bind(library: c.CDLL) -> c.CDLL:
    """A library whose functions have the types that `odtc.h` gives them."""
    return _bound(library, _SIGNATURES)


def bind_gpus(library: c.CDLL) -> c.CDLL:
    """The same, of the library that has the functions of `odtc_gpu.h`."""
    return _bound(bind(library), _OF_GPUS)


def _bound(library: c.CDLL, signatures: dict[str, tuple[Any, ...]]) -> c.CDLL:
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
