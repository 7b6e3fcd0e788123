"""Stubs of libraries: what a linker takes from them, and what a loader does."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from odtc.backends.objects.link import find_linker
from odtc.backends.objects.stub_library import stub_library
from odtc.backends.targets import parse_target
from tests.backends.test_elf_gate import compile_objects

HOST = parse_target("host-cpu")
MACHINE = platform.machine()

LOADS = """
import ctypes, sys
import tvm_ffi
library, *names = sys.argv[1:]
for name in names:
    ctypes.CDLL(name)
ctypes.CDLL(library)
"""


@pytest.mark.parametrize("symbols", [(), ("one",), ("b", "a", "c")])
def test_what_a_reader_finds(tmp_path: Path, symbols: tuple[str, ...]) -> None:
    path = tmp_path / "lib"
    path.write_bytes(stub_library("libx.so", "aarch64", symbols, ("liby.so", "libz.so")))
    with path.open("rb") as file:
        elf = ELFFile(file)
        (dynamic,) = (each for each in elf.iter_segments() if each["p_type"] == "PT_DYNAMIC")
        assert [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] == ["liby.so", "libz.so"]
        assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == ["libx.so"]
        by_segments = sorted(each.name for each in dynamic.iter_symbols() if each.name)
        by_sections = [each.name for each in elf.get_section_by_name(".dynsym").iter_symbols()][1:]
        assert by_segments == by_sections == sorted(symbols)
        assert elf["e_machine"] == "EM_AARCH64"


def test_another_name_of_a_library(tmp_path: Path) -> None:
    """A process finds a library by a name that its system does not have."""
    linked, loaded = tmp_path / "linked.so", tmp_path / "loaded.so"
    linked.write_bytes(stub_library("libstranger.so", MACHINE, ["cosf"]))
    loaded.write_bytes(stub_library("libstranger.so", MACHINE, needed=["libm.so.6"]))
    objects = [*compile_objects(tmp_path, HOST, "cosf"), linked]
    subprocess.run(find_linker(HOST).arguments(objects, tmp_path / "lib.so", HOST), check=True)

    def load(*names: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", LOADS, str(tmp_path / "lib.so"), *map(str, names)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    alone = load()
    assert "libstranger.so: cannot open shared object file" in alone.stderr
    assert load(loaded).returncode == 0
