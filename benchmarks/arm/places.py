"""Where code lies: the library and the function of an address in an emulated process."""

from bisect import bisect_right
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from benchmarks.arm.blocks import Mapping


@dataclass(frozen=True)
class Place:
    """A library by its file's name, and a function of it; the rest where none is known."""

    library: str
    function: str


NOWHERE = Place("", "")


class Library:
    """The functions of an ELF file, by their addresses in the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name

    @cached_property
    def _functions(self) -> list[tuple[int, str]]:
        found: dict[int, list[str]] = {}
        with self._path.open("rb") as file:
            elf = ELFFile(file)
            segments = [
                (each["p_vaddr"] - each["p_offset"], each["p_offset"], each["p_filesz"])
                for each in elf.iter_segments("PT_LOAD")
            ]
            for section in elf.iter_sections():
                if not isinstance(section, SymbolTableSection):
                    continue
                for symbol in section.iter_symbols():
                    if symbol["st_info"]["type"] != "STT_FUNC" or not symbol["st_value"]:
                        continue
                    for shift, offset, size in segments:
                        if offset <= symbol["st_value"] - shift < offset + size:
                            found.setdefault(symbol["st_value"] - shift, []).append(symbol.name)
        # A kernel has a hash as its name, too, and those of all calls that share its code.
        return sorted(
            (at, min(names, key=lambda name: (len(name), name))) for at, names in found.items()
        )

    def function_at(self, offset: int) -> str:
        """The function that lies at an offset of the file, or before it."""
        functions = self._functions
        place = bisect_right(functions, (offset, "\U0010ffff")) - 1
        return functions[place][1] if place >= 0 else ""


class Places:
    """Of a process.

    Args:
        mappings: of its memory.
        files: where the files of the guest's paths are on this machine, by their names.
    """

    def __init__(self, mappings: Sequence[Mapping], files: Table[str, Path] | None = None) -> None:
        self._mappings = mappings
        self._begins = [each.begin for each in mappings]
        self._files = files or {}
        self._libraries: dict[Path, Library | None] = {}

    def at(self, address: int) -> Place:
        """Where an address lies."""
        index = bisect_right(self._begins, address) - 1
        if index < 0 or address >= self._mappings[index].end:
            return NOWHERE
        mapping = self._mappings[index]
        library = self._library(mapping.path)
        if library is None:
            return Place(mapping.path.name, "")
        return Place(library.name, library.function_at(address - mapping.begin + mapping.offset))

    def _library(self, path: Path) -> Library | None:
        if path not in self._libraries:
            here = self._files.get(path.name, path)
            self._libraries[path] = Library(here) if here.is_file() else None
        return self._libraries[path]
