"""The ELF gate: rules that a library, or a program, must obey so that a phone can load it.

A library that breaks a rule would mostly still load on the machine that compiled it, and fail on
the phone. Each rule is a function from the opened library to what is wrong with it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.relocation import RelocationTable
from elftools.elf.segments import InterpSegment, Segment

from odtc.backends.objects.system_libraries import INTERPRETER, system_libraries
from odtc.backends.targets import Target
from odtc.core.errors import BuildError

PAGE_BYTES = 0x4000
"""Alignment of the segments: phones have pages of 4 KiB or of 16 KiB."""

_MACHINES = {"elf_x86_64": "EM_X86_64", "aarch64linux": "EM_AARCH64"}

# Flags of dynamic sections and segments, from the ELF specification.
_DF_TEXTREL = 0x4
_DF_BIND_NOW = 0x8
_DF_1_NOW = 0x1
_PF_X = 0x1
_PF_W = 0x2
_DF_1_PIE = 0x08000000
_R_AARCH64_COPY = 1024


@dataclass(frozen=True)
class _Library:
    """An opened library.

    Attributes:
        elf: the file.
        target: what it has to be for.
        systems: symbols of the libraries that there are, by their sonames.
        segments: all of it, read once: to read one that is dynamic reads all sections.
        dynamic: its dynamic section.
        tags: the entries of that, by name.
    """

    elf: ELFFile
    target: Target
    systems: Mapping[str, frozenset[str]]
    segments: list[Segment]
    dynamic: DynamicSegment
    tags: dict[str, list[Any]]

    def of_type(self, name: str) -> list[Segment]:
        """The segments of a type, such as `PT_LOAD`."""
        return [each for each in self.segments if each["p_type"] == name]

    def flag(self, tag: str, mask: int) -> bool:
        """Whether a dynamic entry of flags is there and has one of the bits of `mask`."""
        return any(entry.entry.d_val & mask for entry in self.tags.get(tag, ()))


def _machine(library: _Library) -> Iterator[str]:
    is_for, wanted = library.elf["e_machine"], _MACHINES[library.target.emulation]
    if is_for != wanted:
        yield f"it is for {is_for}, and {library.target.name} is {wanted}"


def _alignment(library: _Library) -> Iterator[str]:
    for segment in library.of_type("PT_LOAD"):
        if segment["p_align"] % PAGE_BYTES:
            yield (
                f"the segment at {segment['p_vaddr']:#x} is aligned to {segment['p_align']:#x}, "
                f"not to {PAGE_BYTES:#x}"
            )


def _needed(library: _Library) -> Iterator[str]:
    known = sorted(library.systems)
    for tag in library.tags.get("DT_NEEDED", ()):
        if tag.needed not in known:
            yield f"it needs the library {tag.needed}; allowed are {', '.join(known)}"


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
    stacks = library.of_type("PT_GNU_STACK")
    if not stacks or stacks[0]["p_flags"] & _PF_X:
        yield "its stack is executable"


def _writable_code(library: _Library) -> Iterator[str]:
    for segment in library.of_type("PT_LOAD"):
        if segment["p_flags"] & _PF_X and segment["p_flags"] & _PF_W:
            yield f"the segment at {segment['p_vaddr']:#x} is writable and holds code"


def _sections(library: _Library) -> Iterator[str]:
    # Android reads the table of sections since version 7, though it loads segments.
    found = [each["sh_offset"] for each in library.elf.iter_sections("SHT_DYNAMIC")]
    if found != [library.dynamic["p_offset"]]:
        yield "its table of sections does not have its dynamic section"


def _hash_styles(library: _Library) -> Iterator[str]:
    for tag in ("DT_HASH", "DT_GNU_HASH"):
        if tag not in library.tags:
            yield f"it has no {tag} table"


def _thread_storage(library: _Library) -> Iterator[str]:
    if library.of_type("PT_TLS"):
        yield "it has variables of threads (TLS), which Android loads from version 10 on only"


def _symbols(library: _Library) -> Iterator[tuple[str, Any]]:
    """The dynamic symbols, each with its section; elftools looks for the table of each anew."""
    dynamic, form = library.dynamic, library.elf.structs.Elf_Sym
    _, offset = dynamic.get_table_offset("DT_SYMTAB")
    if offset is None:
        raise ELFError("it has no table of dynamic symbols")
    size, names = form.sizeof(), dynamic._get_stringtable()
    for number in range(dynamic.num_symbols()):
        symbol = struct_parse(form, library.elf.stream, offset + number * size)
        yield names.get_string(symbol["st_name"]), symbol["st_shndx"]


def _undefined(library: _Library) -> Iterator[str]:
    systems = library.systems
    needed = [tag.needed for tag in library.tags.get("DT_NEEDED", ())]
    brought = {symbol for name in needed for symbol in systems.get(name, ())}
    undefined = {name for name, section in _symbols(library) if section == "SHN_UNDEF"}
    for symbol in sorted(undefined - brought - {""}):
        homes = [name for name, symbols in systems.items() if symbol in symbols]
        why = f"{homes[0]} has it, and it does not need that" if homes else "no library has it"
        yield f"it leaves the symbol {symbol} undefined: {why}"


def _interpreter(library: _Library) -> Iterator[str]:
    segments = [each for each in library.segments if isinstance(each, InterpSegment)]
    found = [each.get_interp_name() for each in segments]
    if found != [INTERPRETER]:
        yield f"its loader is {', '.join(found) or 'none'}, and Android's is {INTERPRETER}"


def _any_address(library: _Library) -> Iterator[str]:
    if library.elf["e_type"] != "ET_DYN" or not library.flag("DT_FLAGS_1", _DF_1_PIE):
        yield "it is not a program that runs at any address (PIE)"


def _in(table: RelocationTable) -> list[int]:
    """The types of the relocations of a table."""
    return [each["r_info_type"] for each in table.iter_relocations()]


def _copies(library: _Library) -> Iterator[str]:
    tables = library.dynamic.get_relocation_tables().values()
    found = [each for table in tables if isinstance(table, RelocationTable) for each in _in(table)]
    if _R_AARCH64_COPY in found:
        yield "it has copies of a library's variables, which Android's loader does not make"


_Rules = tuple[Callable[[_Library], Iterator[str]], ...]

_RULES: _Rules = (
    _machine,
    _alignment,
    _needed,
    _versions,
    _text_relocations,
    _bind_now,
    _stack,
    _writable_code,
    _sections,
    _hash_styles,
    _thread_storage,
    _undefined,
)


# Of a program, in addition.
_RULES_OF_PROGRAMS: _Rules = (_interpreter, _any_address, _copies)


def check_library(path: Path, target: Target, *, in_app: bool = False) -> None:
    """Checks that the library at `path` can be loaded where `target` is.

    Args:
        path: of the library.
        target: of what is loaded.
        in_app: whether it is loaded where there is no TVM.

    Raises:
        BuildError: it breaks rules, all of which are listed; or it is not an ELF library at all.
    """
    _check(path, target, system_libraries(target, tvm=not in_app), "library", _RULES)


def check_program(path: Path, target: Target) -> None:
    """Checks that Android starts the program at `path`.

    Raises:
        BuildError: it breaks rules, all of which are listed; or it is not an ELF program at all.
    """
    systems = system_libraries(target, tvm=False)
    _check(path, target, systems, "program", (*_RULES, *_RULES_OF_PROGRAMS))


def _check(
    path: Path, target: Target, systems: Mapping[str, frozenset[str]], kind: str, rules: _Rules
) -> None:
    with path.open("rb") as file:
        try:
            violations = _violations(ELFFile(file), target, systems, kind, rules)
        except ELFError as error:
            raise BuildError(f"it is not an ELF {kind}: {error}", where=str(path)) from error
    if violations:
        raise BuildError(
            f"the {kind} cannot be shipped to {target.name}:\n"
            + "\n".join(f"  - {violation}" for violation in violations),
            where=str(path),
        )


def _violations(
    elf: ELFFile, target: Target, systems: Mapping[str, frozenset[str]], kind: str, rules: _Rules
) -> list[str]:
    segments = list(elf.iter_segments())
    dynamic = next((each for each in segments if isinstance(each, DynamicSegment)), None)
    if dynamic is None:
        return [f"it is not a shared {kind}: it has no dynamic section"]
    tags: dict[str, list[Any]] = {}
    for tag in dynamic.iter_tags():
        tags.setdefault(tag.entry.d_tag, []).append(tag)
    library = _Library(elf, target, systems, segments, dynamic, tags)
    return [violation for rule in rules for violation in rule(library)]
