"""Cycles of blocks by LLVM's models, and tools that cannot tell them."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.arm import mca
from benchmarks.arm.cores import CORES
from odtc.core.errors import BuildError

FMLA, RETURN, NONE = 0x4E22CC20, 0xD65F03C0, 0
# The destination's number is its lowest bits.
FMLA_V30_V31 = 0x4E20CC00 | 31 << 16 | 30 << 5
# Of four multiply-adds into one register each waits for the one before.
CHAIN = (FMLA,) * 4


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mca, "cache_folder", lambda: tmp_path)


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_each_core_has_a_model(core) -> None:
    """A chain takes longer than it is decoded; what no model knows is as long as that."""
    found = mca.cycles_of([CHAIN, (RETURN,), (NONE,)], core)
    assert found[CHAIN] >= 2 * len(CHAIN)
    assert found[RETURN,] == found[NONE,] == 1 / core.width


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_no_core_multiplies_more_than_it_can(core) -> None:
    """LLVM's A55 begins two multiply-adds of 128 bits in a cycle: its units are of 64 bits."""
    independent = tuple(FMLA_V30_V31 | register for register in range(16))
    found = mca.cycles_of([independent], core)[independent]
    assert found >= len(independent) / core.multiplies


LOADS = {
    # ldr q1, [x0]; ldr q1, [x0], #16; ldr q1, [x0, x2]; ldur q1, [x0, #-16].
    0x3DC00001: 1,
    0x3CC10401: 1,
    0x3CE26801: 1,
    0x3CDF0001: 1,
    # ldp q1, q2, [x0]; ldp q1, q2, [x0], #32; ld1 { v1.4s, v2.4s }, [x0].
    0xAD400801: 2,
    0xACC10801: 2,
    0x4C40A801: 2,
}


@pytest.mark.parametrize(("word", "vectors"), LOADS.items(), ids=hex)
def test_a_vector_takes_a_cortex_a55_two_cycles_however_it_is_loaded(word, vectors) -> None:
    """No multiply-add begins in these; LLVM's model has one to six, and multiplies beside."""
    core = CORES["Cortex-A55"]
    assert mca.cycles_of([(word,)], core)[word,] == pytest.approx(2 * vectors, abs=0.1)
    block = (word, *(FMLA_V30_V31 | register for register in range(16, 24)))
    assert mca.cycles_of([block], core)[block] == pytest.approx(8 + 2 * vectors, abs=0.2)


def test_a_half_of_a_vector_is_loaded_beside_multiply_adds() -> None:
    # ldr d1, [x0]
    block = (0xFD400001, *(FMLA_V30_V31 | register for register in range(16, 24)))
    found = mca.cycles_of([block], CORES["Cortex-A55"])[block]
    assert found == pytest.approx(8, abs=0.2)


def test_a_tool_that_knows_no_such_core_is_an_error_and_nothing_is_kept(tmp_path: Path) -> None:
    core = replace(CORES["Cortex-A76"], scheduling="cortex-z1")
    with pytest.raises(BuildError, match=r"llvm-mca.* failed: .*cortex-z1"):
        mca.cycles_of([CHAIN], core)
    assert not list(tmp_path.iterdir())


def test_an_older_tool_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LLVM 14's does not take the option by which unknown instructions are left out."""
    old = tmp_path / "llvm-mca"
    old.write_text("#!/bin/sh\necho 'Unknown command line argument' >&2\nexit 1\n")
    old.chmod(0o755)
    tool = mca._tool
    monkeypatch.setattr(mca, "_tool", lambda name: str(old) if name == old.name else tool(name))
    with pytest.raises(BuildError, match=r"(?s)Unknown command line argument.*llvm-19"):
        mca.cycles_of([CHAIN], CORES["Cortex-A76"])
