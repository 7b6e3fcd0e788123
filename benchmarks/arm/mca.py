"""Cycles of blocks of code by LLVM's model of a core, each as a loop of its own: llvm-mca.

Its loads always hit the first level; branches are left out, as they are predicted. A block that the
model knows nothing of takes one cycle for as many instructions as the core decodes.

LLVM's model of the A55 has six cycles for a pair of vectors of 128 bits, and one for a vector,
where the core takes two for each (`cores.py`). It is right for LD1, which stands in for these
loads, whatever they add to their base.
"""

import hashlib
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence

from benchmarks.arm.cores import Core
from benchmarks.arm.instructions import instruction
from odtc.core.disk.files import atomic_write, cache_folder
from odtc.core.errors import BuildError

_FEATURES = "-mattr=+v8.2a,+fullfp16,+dotprod,+i8mm,+bf16"
_ITERATIONS = 100
# Blocks in one call of either tool.
_TOGETHER = 200
_LEFT_OUT = re.compile(r"(b|bl|b\.\w+|cbn?z|tbn?z|ret|br|blr|svc|adrp?|brk|hlt|udf|dmb|isb|dsb)\b")
_FOUND = re.compile(r"Code Region - (\w+)\n.*?Total Cycles:\s+(\d+)", re.DOTALL)

# A load of one vector of 128 bits, or a pair of them: registers and base.
_WIDE = re.compile(r"ld(?:r|ur|p|np)\tq(\d+)(?:, q(\d+))?, \[(\w+)")
# Cycles that are kept are those of what llvm-mca is given: this changes with `_as_modelled`.
_KEPT = "mca-2"

Code = tuple[int, ...]


def cycles_of(blocks: Iterable[Code], core: Core) -> dict[Code, float]:
    """The cycles of one run of each block, by its instructions; kept in the user's cache.

    Raises:
        BuildError: llvm-mc or llvm-mca is not installed, or knows too little.
    """
    keys = {_key(code): code for code in blocks}
    kept = cache_folder() / f"{_KEPT}-{core.scheduling}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    new = [code for key, code in keys.items() if key not in known]
    for start in range(0, len(new), _TOGETHER):
        known |= _measured(new[start : start + _TOGETHER], core)
    if new:
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Another process may read it now.
        with atomic_write(kept) as written:
            written.write_text(json.dumps(known), encoding="ascii")
    return {code: max(known[key], _least(code, core)) for key, code in keys.items()}


def _least(code: Code, core: Core) -> float:
    """What a block takes at least: LLVM's A55 multiplies twice in a cycle, and beside loads."""
    found = [instruction(word) for word in code]
    blocked = core.blocked * sum(each.wide_loads for each in found)
    wide = sum(each.is_wide for each in found)
    return max(len(code) / core.width, wide / core.multiplies + blocked)


def _key(code: Code) -> str:
    return hashlib.sha256(struct.pack(f"<{len(code)}I", *code)).hexdigest()[:24]


def _measured(blocks: Sequence[Code], core: Core) -> dict[str, float]:
    regions = []
    for code, lines in zip(blocks, _disassembled(blocks), strict=True):
        kept = [each for line in lines for each in _as_modelled(line, core)]
        if kept:
            regions += [f"# LLVM-MCA-BEGIN {_key(code)}", *kept, "# LLVM-MCA-END"]
    words = [_tool("llvm-mca"), "-mtriple=aarch64", f"-mcpu={core.scheduling}", _FEATURES]
    words += ["-skip-unsupported-instructions=lack-sched", f"-iterations={_ITERATIONS}"]
    words += ["-instruction-info=0", "-resource-pressure=0"]
    said = _run(words, regions) if regions else ""
    found = {key: int(count) / _ITERATIONS for key, count in _FOUND.findall(said)}
    return {_key(code): found.get(_key(code), len(code) / core.width) for code in blocks}


def _as_modelled(line: str, core: Core) -> list[str]:
    """What stands in for a line of assembly; nothing for a branch."""
    if _LEFT_OUT.match(line):
        return []
    if not core.blocked or not (found := _WIDE.match(line)):
        return [line]
    *registers, base = found.groups()
    return [f"ld1\t{{v{register}.2d}}, [{base}]" for register in registers if register]


def _disassembled(blocks: Sequence[Code]) -> list[list[str]]:
    """Lines of assembly of each block; a label in front of each tells them apart."""
    parts = []
    for code in blocks:
        raw = struct.pack(f"<{len(code)}I", *code)
        # A mark between blocks: an instruction that no compiler writes.
        parts.append(" ".join(f"0x{byte:02x}" for byte in (*raw, *_MARK)))
    words = [_tool("llvm-mc"), "--disassemble", "-triple=aarch64", _FEATURES]
    lines: list[list[str]] = [[]]
    for line in map(str.strip, _run(words, parts).splitlines()):
        if line == _MARKED:
            lines.append([])
        elif line and not line.startswith("."):
            lines[-1].append(line)
    return lines[:-1]


_MARK = struct.pack("<I", 0xD503201F | 0x7F << 5)
_MARKED = "hint\t#127"


_HINT = "run `apt-get install llvm-19`"


def _tool(name: str) -> str:
    for each in (f"{name}-19", name):
        if found := shutil.which(each):
            return found
    raise BuildError(f"{name} is not installed: it models a core's pipelines", hint=_HINT)


def _run(words: Sequence[str], lines: Iterable[str]) -> str:
    """What a tool prints: LLVM 14's, which knows too little, ends with an error."""
    done = subprocess.run(
        words, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{words[0]} failed: {done.stderr[-2000:].strip()}", hint=_HINT)
    return done.stdout
