"""Where the runtime puts its threads: by files of phones, and by a property."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER, compiler_of_c
from tests.fast import examples
from tests.native.sanitized import ADDRESS, PROGRAMS
from tests.needs import needs
from tests.runtime_rpc.trees import plant

pytestmark = needs(cc_command(), reason="no C compiler")

# MHz of the cores of phones, as they are numbered there.
PHONES = {
    "Helio G85": [1800] * 6 + [2000] * 2,
    "Snapdragon 8 Gen 1": [1785] * 4 + [2496] * 3 + [2995],
    "Snapdragon 8 Gen 2": [2016] * 3 + [2803] * 2 + [2803] * 2 + [3187],
    "Snapdragon 8 Gen 3": [2265] * 2 + [3148] * 3 + [2956] * 2 + [3302],
    "Exynos 2200": [1824] * 4 + [2515] * 3 + [2803],
    "Tensor G2": [1803] * 4 + [2348] * 2 + [2850] * 2,
}
# The phone, the caller's core, and workers to their cores.
PLACED = [
    ("Helio G85", 6, 1, [7]),
    ("Helio G85", 7, 3, [6, 0, 1]),
    # On a small core the caller is not there to stay: the fastest one is left for it.
    ("Helio G85", 3, 1, [7]),
    ("Snapdragon 8 Gen 1", 7, 3, [4, 5, 6]),
    ("Snapdragon 8 Gen 1", 5, 3, [7, 6, 4]),
    ("Snapdragon 8 Gen 1", 0, 3, [4, 5, 6]),
    ("Snapdragon 8 Gen 1", 0, 7, [7, 4, 5, 6, 1, 2, 3]),
    ("Snapdragon 8 Gen 1", 0, 8, []),
    ("Snapdragon 8 Gen 2", 4, 3, [7, 5, 6]),
    ("Snapdragon 8 Gen 3", 7, 3, [2, 3, 4]),
    ("Snapdragon 8 Gen 3", 6, 5, [7, 2, 3, 4, 5]),
    ("Exynos 2200", 2, 1, [4]),
    ("Tensor G2", 6, 1, [7]),
    ("Tensor G2", 4, 1, [7]),
    ("Tensor G2", 5, 3, [6, 7, 4]),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("cores") / "cores"
    sources = [str(PROGRAMS / "cores.c"), str(FOLDER / "cores.c")]
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *ADDRESS, f"-I{FOLDER}"]
    subprocess.run([*compiler_of_c(), *flags, *sources, "-o", str(output)], check=True)
    return output


def answers(program: Path, lines: Sequence[str]) -> list[tuple[list[str], list[int], list[int]]]:
    """The cores with their parts, the workers' places, and their other places, of each line."""
    given = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([str(program)], input=given, capture_output=True, text=True, check=True)
    parts = [line.split("|") for line in done.stdout.splitlines()]
    return [
        (cores.split(), [*map(int, a.split())], [*map(int, b.split())]) for cores, a, b in parts
    ]


def tree_of(megahertz: Sequence[int]) -> dict[str, str]:
    name = "sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq"
    return {name.format(core): f"{each}000\n" for core, each in enumerate(megahertz)}


def test_workers_of_phones(program: Path, tmp_path: Path) -> None:
    roots = {phone: tmp_path / str(n) for n, phone in enumerate(PHONES)}
    for phone, root in roots.items():
        plant(tree_of(PHONES[phone]), root)
    lines = [
        f"{roots[phone]} {caller} {workers} {' '.join(map(str, range(8)))}"
        for phone, caller, workers, _ in PLACED
    ]
    found = answers(program, lines)
    assert [(*case[:3], each[1]) for case, each in zip(PLACED, found, strict=True)] == PLACED


# MHz of cores, and those that are the same core of the hardware, as the system lists them: two
# beside each other, as in virtual machines; all first ones before all second ones; and both kinds.
SHARED = {
    "beside": [(3000, f"{core // 2 * 2}-{core // 2 * 2 + 1}") for core in range(8)],
    "behind": [(3000, f"{core % 4},{core % 4 + 4}") for core in range(8)],
    "hybrid": [(5000, "0-1"), (5000, "0-1"), (5000, "2-3"), (5000, "2-3")]
    + [(3800, str(core)) for core in (4, 5, 6)],
}
# As PLACED.
PLACED_APART = [
    ("beside", 0, 1, [2]),
    ("beside", 0, 3, [2, 4, 6]),
    ("beside", 3, 3, [4, 6, 0]),
    ("beside", 0, 5, [2, 4, 6, 1, 3]),
    ("behind", 0, 3, [1, 2, 3]),
    ("behind", 2, 3, [3, 4, 5]),
    ("behind", 0, 4, [1, 2, 3, 4]),
    ("hybrid", 0, 1, [2]),
    ("hybrid", 0, 3, [2, 4, 5]),
    ("hybrid", 0, 5, [2, 4, 5, 6, 1]),
]


def test_workers_share_a_core_of_the_hardware_where_they_must(
    program: Path, tmp_path: Path
) -> None:
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    for name, cores in SHARED.items():
        lists = {siblings.format(n): f"{each}\n" for n, (_, each) in enumerate(cores)}
        plant(tree_of([each for each, _ in cores]) | lists, tmp_path / name)
    lines = [
        f"{tmp_path / name} {caller} {workers} {' '.join(map(str, range(len(SHARED[name]))))}"
        for name, caller, workers, _ in PLACED_APART
    ]
    found = answers(program, lines)
    placed = [(*case[:3], each[1]) for case, each in zip(PLACED_APART, found, strict=True)]
    assert placed == PLACED_APART


def test_what_files_say(program: Path, tmp_path: Path) -> None:
    """Capacity counts before frequency; a core that is offline, or silent, has neither."""
    cpu = "sys/devices/system/cpu/cpu{}/"
    tree = {
        f"{cpu.format(0)}cpu_capacity": "287\n",
        f"{cpu.format(0)}cpufreq/cpuinfo_max_freq": "2000000\n",
        f"{cpu.format(0)}regs/identification/midr_el1": "0x00000000412fd050\n",
        f"{cpu.format(1)}cpu_capacity": "1024\n",
        f"{cpu.format(1)}cpufreq/cpuinfo_max_freq": "1800000\n",
        f"{cpu.format(1)}regs/identification/midr_el1": "0x00000000518f8040\n",
        f"{cpu.format(2)}cpufreq/cpuinfo_max_freq": "\n",
        f"{cpu.format(2)}regs/identification/midr_el1": "unknown\n",
    }
    plant(tree, tmp_path)
    ((cores, places, _),) = answers(program, [f"{tmp_path} 0 1 0 1 2 3"])
    assert cores == ["1:51804", "0:41d05", "2:0", "3:0"]
    assert places == [1]


# In the kernel's format, by hand: two of four cores are offline, and one says nothing of itself.
CPUINFO = """\
Processor\t: AArch64 Processor rev 0 (aarch64)
processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x2
CPU part\t: 0xd05
CPU revision\t: 0

processor\t: 7
CPU implementer\t: 0x41
CPU part\t: 0xd0a
Hardware\t: MT6769V/CZ
processor\t: 3
CPU part"""


@needs(
    shutil.which("qemu-aarch64-static"),
    shutil.which("aarch64-linux-gnu-gcc"),
    reason="no emulator of 64-bit ARM, or no compiler for it",
)
def test_parts_by_an_older_system(tmp_path: Path) -> None:
    sources = [str(PROGRAMS / "cores.c"), str(FOLDER / "cores.c"), f"-I{FOLDER}"]
    program = tmp_path / "cores"
    command = ["aarch64-linux-gnu-gcc", "-std=c11", "-static", *sources, "-o", str(program)]
    subprocess.run(command, check=True)
    (tmp_path / "run").write_text(f'#!/bin/sh\nexec qemu-aarch64-static "{program}"\n')
    (tmp_path / "run").chmod(0o755)
    plant({"proc/cpuinfo": CPUINFO}, tmp_path)
    ((cores, _, _),) = answers(tmp_path / "run", [f"{tmp_path} 0 1 0 3 6 7"])
    # One that is offline is unknown, and so is one of which nothing more is said.
    assert cores == ["0:41d05", "3:41000", "6:0", "7:41d0a"]


CORES = st.lists(
    st.tuples(st.integers(0, 1023), st.sampled_from([0, 300, 1024]), st.sampled_from([0, 1800])),
    min_size=1,
    max_size=12,
    unique_by=lambda core: core[0],
)


@settings(max_examples=examples(6), deadline=None)
@given(st.lists(st.tuples(CORES, st.integers(-1, 1023), st.integers(1, 12)), min_size=50))
def test_workers_have_fast_cores_of_their_own(
    program: Path, cases: list[tuple[list[tuple[int, int, int]], int, int]]
) -> None:
    cases = [(cores, cores[0][0] if n % 2 else at, w) for n, (cores, at, w) in enumerate(cases)]
    lines = [
        f"- {caller} {workers} {' '.join(':'.join(map(str, core)) for core in cores)}"
        for cores, caller, workers in cases
    ]
    for (cores, caller, workers), (order, places, others) in zip(
        cases, answers(program, lines), strict=True
    ):
        speeds = {number: speed for number, *speed in cores}
        sorted_speeds = [speeds[int(core.partition(":")[0])] for core in order]
        assert sorted_speeds == sorted(speeds.values(), reverse=True)
        if len(cores) <= workers:
            assert not places
            continue
        assert len(set(places)) == workers
        assert set(places) <= speeds.keys() - {caller}
        # Nobody waits for a slower core than has to: all are among the fastest, as many as threads.
        assert (
            sorted((speeds[each] for each in places), reverse=True)
            >= sorted_speeds[1 : workers + 1]
        )
        assert min(speeds[each] for each in places) >= sorted_speeds[workers]
        for other in others:
            free = speeds.keys() - set(places)
            assert other in free if free else other == -1
            assert speeds.get(other, [0, 0]) == max((speeds[each] for each in free), default=[0, 0])


SHARING = st.lists(
    st.tuples(st.integers(0, 1023), st.integers(0, 5)),
    min_size=1,
    max_size=12,
    unique_by=lambda core: core[0],
)


@settings(max_examples=examples(6), deadline=None)
@given(st.lists(st.tuples(SHARING, st.integers(0, 11), st.integers(1, 11)), min_size=50))
def test_threads_are_on_as_many_cores_of_the_hardware_as_there_are(
    program: Path, cases: list[tuple[list[tuple[int, int]], int, int]]
) -> None:
    cases = [(cores, cores[at % len(cores)][0], workers) for cores, at, workers in cases]
    lines = [
        f"- {caller} {workers} {' '.join(f'{number}:0:0:{of}' for number, of in cores)}"
        for cores, caller, workers in cases
    ]
    for (cores, caller, workers), (_, places, _) in zip(
        cases, answers(program, lines), strict=True
    ):
        physical = dict(cores)
        if len(cores) > workers:
            used = {physical[each] for each in (caller, *places)}
            assert len(used) == min(workers + 1, len({*physical.values()}))
