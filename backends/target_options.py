"""The fields of a target that its text may override, and how each is read."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from odtc.backends.gpu.known import GPUS

# Bytes a second of a storage, at most.
_FASTEST = 10**15


# Sets of kernels in one library, at most; the native runtime counts them with one digit.
_MOST_CORES = 8


def _cpu_names(value: str) -> tuple[str, ...]:
    names = tuple(value.split("+"))
    if not all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names):
        raise ValueError(
            "a CPU name of LLVM, such as cortex-a76, or several, as in cortex-a55+cortex-a53"
        )
    if len(set(names)) < len(names) or len(names) > _MOST_CORES:
        raise ValueError(f"up to {_MOST_CORES} CPU names, each once")
    return names


def _features(value: str) -> tuple[str, ...]:
    if not re.fullmatch(r"[+-][a-z0-9.-]+(:[+-][a-z0-9.-]+)*", value):
        raise ValueError("LLVM features joined by colons, such as +neon:-sve")
    return tuple(value.split(":"))


def _threads(value: str) -> int:
    if not re.fullmatch(r"[1-9]\d?", value):
        raise ValueError("a number of threads from 1 to 99")
    return int(value)


def _bandwidth(value: str) -> int:
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 1 <= found <= _FASTEST:
        raise ValueError("bytes per second, such as 5e8")
    return int(found)


def _gpu(value: str) -> str:
    if value not in GPUS:
        near, listed = get_close_matches(value, GPUS, n=3), "one that `odtc targets` lists"
        raise ValueError(f"{', '.join(near)}, or {listed}" if near else listed)
    return value


# The fields that a target's text may override; a reader raises ValueError with what it expects.
OPTIONS: dict[str, Callable[[str], Any]] = {
    "mcpu": _cpu_names,
    "mattr": _features,
    "threads": _threads,
    "storage_write": _bandwidth,
    "storage_read": _bandwidth,
    "gpu": _gpu,
}
