"""The ELF gate: rules that a library must obey so that a phone can load it.

A library that breaks a rule would mostly still load on the machine that compiled it, and fail on
the phone. Each rule is a function from the opened library to what is wrong with it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from odtc.backends.targets import Target
from odtc.core.errors import BuildError

PAGE_BYTES = 0x4000
"""Alignment of the segments: phones have pages of 4 KiB or of 16 KiB."""

_MACHINES = {"elf_x86_64": "EM_X86_64", "aarch64linux": "EM_AARCH64"}

# Libraries that Android has, or that come with the runtime.
_NEEDED = {"libc.so", "libm.so", "libtvm_ffi.so"}

# Flags of dynamic sections and segments, from the ELF specification.
_DF_TEXTREL = 0x4
_DF_BIND_NOW = 0x8
_DF_1_NOW = 0x1
_PF_X = 0x1

# Symbols that a library may leave to its loader. The C functions are in Android's libc and libm.
_PREFIXES = (
    "TVMFFI",  # the runtime's C interface: errors, objects, functions
    "TVMBackend",  # its thread pool and workspaces; TVM mostly reaches them through its own slots
)
_MEMORY = "memcpy memmove memset"  # LLVM makes these of loops that copy or fill
# Functions that TVM calls for Relax operators or LLVM where a CPU lacks an instruction (rounding,
# fused multiply-add), and related ones. In single precision, with an `f`, and in double.
_MATHS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 "
    "expm1 fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint "
    "nextafter pow rint round sin sinh sqrt tan tanh tgamma trunc"
)
_SYMBOLS = {
    *_MEMORY.split(),
    *_MATHS.split(),
    *(f"{name}f" for name in _MATHS.split()),
}


@dataclass(frozen=True)
class _Library:
    """An opened library; `tags` are the entries of its dynamic section, by name."""

    elf: ELFFile
    target: Target
    dynamic: DynamicSegment
    tags: dict[str, list[Any]]

    def flag(self, tag: str, mask: int) -> bool:
        """Whether a dynamic entry of flags is there and has one of the bits of `mask`."""
        return any(entry.entry.d_val & mask for entry in self.tags.get(tag, ()))


def _machine(library: _Library) -> Iterator[str]:
    is_for, wanted = library.elf["e_machine"], _MACHINES[library.target.emulation]
    if is_for != wanted:
        yield f"it is for {is_for}, and {library.target.name} is {wanted}"


def _alignment(library: _Library) -> Iterator[str]:
    for segment in library.elf.iter_segments("PT_LOAD"):
        if segment["p_align"] % PAGE_BYTES:
            yield (
                f"the segment at {segment['p_vaddr']:#x} is aligned to {segment['p_align']:#x}, "
                f"not to {PAGE_BYTES:#x}"
            )


def _needed(library: _Library) -> Iterator[str]:
    for tag in library.tags.get("DT_NEEDED", ()):
        if tag.needed not in _NEEDED:
            yield f"it needs the library {tag.needed}; allowed are {', '.join(sorted(_NEEDED))}"


def _versions(library: _Library) -> Iterator[str]:
    for section in library.elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            names = sorted(aux.name for _, entries in section.iter_versions() for aux in entries)
            yield from (f"it asks for the version {n}" for n in names if n.startswith("GLIBC_"))


def _text_relocations(library: _Library) -> Iterator[str]:
    if "DT_TEXTREL" in library.tags or library.flag("DT_FLAGS", _DF_TEXTREL):
        yield "it has text relocations, which Android refuses"


def _bind_now(library: _Library) -> Iterator[str]:
    eager = (
        "DT_BIND_NOW" in library.tags
        or library.flag("DT_FLAGS", _DF_BIND_NOW)
        or library.flag("DT_FLAGS_1", _DF_1_NOW)
    )
    if not eager:
        yield "it binds its symbols late (no BIND_NOW)"


def _stack(library: _Library) -> Iterator[str]:
    stack = next(library.elf.iter_segments("PT_GNU_STACK"), None)
    if stack is None or stack["p_flags"] & _PF_X:
        yield "its stack is executable"


def _hash_styles(library: _Library) -> Iterator[str]:
    for tag in ("DT_HASH", "DT_GNU_HASH"):
        if tag not in library.tags:
            yield f"it has no {tag} table"


def _undefined(library: _Library) -> Iterator[str]:
    undefined = {s.name for s in library.dynamic.iter_symbols() if s["st_shndx"] == "SHN_UNDEF"}
    for name in sorted(undefined - _SYMBOLS - {""}):
        if not name.startswith(_PREFIXES):
            yield f"it leaves the symbol {name} undefined"


_RULES: tuple[Callable[[_Library], Iterator[str]], ...] = (
    _machine,
    _alignment,
    _needed,
    _versions,
    _text_relocations,
    _bind_now,
    _stack,
    _hash_styles,
    _undefined,
)


def check_library(path: Path, target: Target) -> None:
    """Checks that the library at `path` can be loaded where `target` is.

    Raises:
        BuildError: it breaks rules, all of which are listed; or it is not an ELF library at all.
    """
    with path.open("rb") as file:
        try:
            violations = _violations(ELFFile(file), target)
        except ELFError as error:
            raise BuildError(f"it is not an ELF library: {error}", where=str(path)) from error
    if violations:
        raise BuildError(
            f"the library cannot be shipped to {target.name}:\n"
            + "\n".join(f"  - {violation}" for violation in violations),
            where=str(path),
        )


def _violations(elf: ELFFile, target: Target) -> list[str]:
    dynamic = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)
    if dynamic is None:
        return ["it is not a shared library: it has no dynamic section"]
    tags: dict[str, list[Any]] = {}
    for tag in dynamic.iter_tags():
        tags.setdefault(tag.entry.d_tag, []).append(tag)
    library = _Library(elf, target, dynamic, tags)
    return [violation for rule in _RULES for violation in rule(library)]
