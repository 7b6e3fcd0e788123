"""Checks of a step for a GPU: that the native runtime, which alone drives GPUs, can take it.

Host code of its kernels may do nothing but launch them; the runtime refuses to load what asks it
for memory of the host, and would do so on the user's device.
"""

from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from odtc.backends.targets import CPU, Target
from odtc.core.errors import UnsupportedError

# A pointer in the library that TVM would fill in, by what it is for; `launches.c` has the same.
_CALLS = {"__TVMBackendAllocWorkspace": "TVMBackendAllocWorkspace"}
_HINT = "compile for a CPU; and report the model, as every step is meant to run on GPUs"


def check_launches(library: Path, target: Target) -> None:
    """Checks that kernels of a GPU call nothing of the host.

    Args:
        library: of the step; nothing is checked of one for a CPU.
        target: of it.

    Raises:
        UnsupportedError: they call something.
    """
    if target.kind == CPU:
        return
    with library.open("rb") as file:
        segments = ELFFile(file).iter_segments()
        tables = [each for each in segments if isinstance(each, DynamicSegment)]
        names = {symbol.name for table in tables for symbol in table.iter_symbols()}
    if called := [call for name, call in _CALLS.items() if name in names]:
        raise UnsupportedError(
            f"the kernels of the step call {', '.join(called)} on the host, where nothing runs "
            "beside a GPU",
            where=target.name,
            hint=_HINT,
        )


def check_has_program(refused: str, target: Target) -> None:
    """Checks that a step for a GPU has a program.

    Args:
        refused: why it has none; empty where it has one.
        target: of it.

    Raises:
        UnsupportedError: it has none.
    """
    if refused and target.kind != CPU:
        raise UnsupportedError(
            f"only the native runtime drives GPUs, and there is no program for it: {refused}",
            where=target.name,
            hint=_HINT,
        )
