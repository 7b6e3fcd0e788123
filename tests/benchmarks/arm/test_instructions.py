"""What instructions are, by their bits, against LLVM's disassembler."""

import re
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.arm.emulator import ROOT
from benchmarks.arm.instructions import Kind, instruction
from benchmarks.arm.ours import COMPILER

_LINE = re.compile(r"^\s*[0-9a-f]+: ([0-9a-f]{8})\s+(\S+)\s*(.*)$")

# Names of the disassembler; the first expression that matches says what an instruction is.
_BY_NAME = (
    (r"(fmla|fmls)$", Kind.MULTIPLY_ADD),
    (r"(fmadd|fmsub|fnmadd|fnmsub)$", Kind.SCALAR),
    (r"(sdot|udot|smmla|ummla|usmmla|usdot|sudot|bfdot|bfmmla)$", Kind.DOT),
    (r"(fdiv|fsqrt)$", Kind.DIVIDE),
    (r"(ld|st)[1-4]r?$", None),
    (r"(ld|prfm|cas|swp)", None),
    (r"st", None),
    (r"(b|bl|b\.\w+|cbn?z|tbn?z|ret|br|blr)$", Kind.BRANCH),
)
# What a C library has none of: vectors of each type.
_FLAGS = ("-O3", "-march=armv8.2-a+dotprod+fp16+i8mm", "-ffast-math", "-c")
# Scalar registers of floats, and vectors.
_VECTOR = re.compile(r"\bv\d+\.")
_FLOAT = re.compile(r"^[sdh]\d+\b")


def _expected(name: str, operands: str) -> set[Kind]:
    for pattern, kind in _BY_NAME:
        if re.match(pattern, name):
            return {kind} if kind else {Kind.LOAD, Kind.STORE}
    if name in ("fadd", "fsub", "fmul", "fmax", "fmin", "fmaxnm", "fminnm", "fabd", "fnmul"):
        return {Kind.VECTOR} if _VECTOR.match(operands) else {Kind.SCALAR, Kind.VECTOR}
    if name == "fmov":
        return {Kind.SCALAR, Kind.SHUFFLE}
    if _VECTOR.search(operands):
        return {Kind.SHUFFLE, Kind.VECTOR}
    if name.startswith("f") and _FLOAT.match(operands):
        return {Kind.SCALAR, Kind.SHUFFLE}
    return set()


def _disassembled(path: Path):
    words = ["llvm-objdump-19", "-d", "--mattr=+all", str(path)]
    # Scalable vectors are no part of what is counted.
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    ):
        if (found := _LINE.match(line)) and not re.search(r"\b[zp]\d", found[3]):
            yield int(found[1], 16), found[2], found[3]


def test_kinds_are_those_that_a_disassembler_names(tmp_path: Path) -> None:
    seen = Counter[Kind]()
    wrong = []
    loops = Path(__file__).parent / "loops.c"
    subprocess.run([COMPILER, *_FLAGS, str(loops), "-o", str(tmp_path / "loops.o")], check=True)
    every = {*_disassembled(ROOT / "lib" / "libm.so.6"), *_disassembled(tmp_path / "loops.o")}
    for word, name, operands in every:
        found = instruction(word).kind
        seen[found] += 1
        if (expected := _expected(name, operands)) and found not in expected:
            wrong.append((name, operands, found))
    assert not wrong[:10]
    assert seen[Kind.MULTIPLY_ADD] > 10
    assert seen[Kind.DOT] > 1
    assert seen[Kind.DIVIDE] > 10


def test_loads_are_told_from_stores() -> None:
    for word, name, _ in set(_disassembled(ROOT / "lib" / "libc.so.6")):
        if re.match(r"ld(u?r(s?[bh]|sw)?|n?p|a?x?r)$", name):
            assert instruction(word).kind is Kind.LOAD, (hex(word), name)
        if re.match(r"st(u?r|p|nd?p|u?rb|u?rh|x?r)$", name):
            assert instruction(word).kind is Kind.STORE, (hex(word), name)


_VECTORS_OF = (
    (r"ldu?r$", re.compile(r"q\d+")),
    (r"ldn?p$", re.compile(r"\bq\d+")),
    (r"ld1$", re.compile(r"\bv\d+\.(16b|8h|4s|2d)(?!\[)")),
)


def test_loads_of_whole_vectors_are_told_by_their_registers() -> None:
    """Of an element of a vector, or of halves of vectors, none is one."""
    seen = Counter[int]()
    for word, name, operands in set(_disassembled(ROOT / "lib" / "libc.so.6")):
        found = instruction(word).wide_loads
        registers = operands.partition(", [")[0]
        whole = [p for pattern, p in _VECTORS_OF if re.match(pattern, name)]
        expected = len(whole[0].findall(registers)) if whole and "}[" not in operands else 0
        assert found == expected, (hex(word), name, operands)
        seen[found] += 1
    assert min(seen[1], seen[2]) > 10


def test_arithmetic_has_an_operation_for_each_lane_and_a_multiply_add_two() -> None:
    flops = {
        0x4E22CC20: 8,  # fmla v0.4s, v1.4s, v2.4s
        0x0E22CC20: 4,  # fmla v0.2s, v1.2s, v2.2s
        0x4E62CC20: 4,  # fmla v0.2d, v1.2d, v2.2d
        0x4F821020: 8,  # fmla v0.4s, v1.4s, v2.s[0]
        0x4E420C20: 16,  # fmla v0.8h, v1.8h, v2.8h
        0x1F020C20: 2,  # fmadd s0, s1, s2, s3
        0x4E22D420: 4,  # fadd v0.4s, v1.4s, v2.4s
        0x4E421420: 8,  # fadd v0.8h, v1.8h, v2.8h
        0x1E222820: 1,  # fadd s0, s1, s2
        0x6E22FC20: 4,  # fdiv v0.4s, v1.4s, v2.4s
        0x6E423C20: 8,  # fdiv v0.8h, v1.8h, v2.8h
        0x1E221820: 1,  # fdiv s0, s1, s2
        0x6EA1F820: 4,  # fsqrt v0.4s, v1.4s
        0x4EA11C20: 0,  # mov v0.16b, v1.16b
    }
    assert {word: instruction(word).flops for word in flops} == flops
