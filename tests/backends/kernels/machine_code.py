"""Reads compiled code of Arm and x86: a library's innermost loops, and how fast a core runs one.

llvm-objdump disassembles, llvm-mca simulates a core from LLVM's own tables of it. Nothing runs, so
results for an ARM core need no ARM core; caches are not simulated, every load hits.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

# The first release that has a table of the Neoverse N1.
OLDEST = 16
ITERATIONS = 200
# A core decodes so many instructions in a cycle; llvm-mca counts micro-operations instead.
DECODED = 4
_VECTOR = re.compile(r"v\d+\.")
# Below a frame pointer lie the locals; without a frame, x29 is a register like any other.
_STACK = re.compile(r"\[(sp\b|x29, #-)|\(%rsp\b")


def tool(name: str) -> str:
    """The newest `name-<version>`, or a `name` of a version that will do; fails without one."""
    versions = [f"{name}-{number}" for number in range(40, OLDEST - 1, -1)]
    for candidate in (*versions, name):
        if shutil.which(candidate) and _version(candidate) >= OLDEST:
            return candidate
    pytest.fail(f"{name} of LLVM {OLDEST} or newer is missing: run `make setup`")


@cache
def _version(command: str) -> int:
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)", said.stdout)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly.

    Attributes:
        address: in the library.
        name: the mnemonic.
        operands: as text.
    """

    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where it branches to; None for what is no branch to a fixed place."""
        if not re.fullmatch(r"b|b\..*|cbn?z|tbn?z|j\w+", self.name):
            return None
        found = re.search(r"0x([0-9a-f]+)\b", self.operands.rpartition(",")[2])
        return int(found[1], 16) if found else None

    @property
    def is_vector_arithmetic(self) -> bool:
        """Whether it computes with floats in vectors; moves and bit masks do not."""
        return self.name.startswith("f") and bool(_VECTOR.match(self.operands))

    @property
    def is_store(self) -> bool:
        """Whether it writes memory."""
        return self.name.startswith("st")

    @property
    def is_stack(self) -> bool:
        """Whether it reads or writes the stack."""
        return self.name.startswith(("ld", "st")) and bool(_STACK.search(self.operands))

    @property
    def is_spill(self) -> bool:
        """Whether it moves a vector register from or to the stack."""
        is_wide = bool(re.search(r"%[xyz]mm", self.operands))
        if "%" in self.operands:
            return is_wide and bool(_STACK.search(self.operands))
        return self.is_stack and bool(re.match(r"[qvds]\d|\{ v", self.operands))


Loop = tuple[Instruction, ...]


def innermost_loops(library: Path) -> Iterator[Loop]:
    """Every loop that has no other loop inside."""
    code = _disassembled(library)
    place = {instruction.address: index for index, instruction in enumerate(code)}
    spans = [
        (place[item.target], index)
        for index, item in enumerate(code)
        if item.target is not None and place.get(item.target, index + 1) <= index
    ]
    for start, end in spans:
        inside = [(a, b) for a, b in spans if start <= a and b <= end and (a, b) != (start, end)]
        if not inside:
            yield code[start : end + 1]


def _disassembled(library: Path) -> Loop:
    command = [tool("llvm-objdump"), "--disassemble", "--no-show-raw-insn", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*([^<]*)", line) for line in text.splitlines())
    return tuple(Instruction(int(m[1], 16), m[2], m[3].strip()) for m in lines if m)


def count(loop: Loop, name: str) -> int:
    """How many instructions of a loop have this mnemonic."""
    return sum(item.name == name for item in loop)


def cycles(loop: Loop, cpu: str) -> float:
    """Cycles of one iteration on a core of LLVM's name `cpu`, one of many in a row."""
    body = "\n".join(f"{item.name} {item.operands}" for item in loop if item.target is None)
    command = [tool("llvm-mca"), "-mtriple=aarch64", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"]
    done = subprocess.run(command, input=body, capture_output=True, text=True, check=True)
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert total, done.stdout
    return max(int(total[1]) / ITERATIONS, len(loop) / DECODED)
