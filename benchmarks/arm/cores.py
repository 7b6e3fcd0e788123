"""The cores that a step's cycles are modelled for: what is assumed of each, in one table.

Caches are those of one core as Arm's Technical Reference Manuals have them, in the size that phones
usually have; the last level is what one thread may find of a cluster's. Rates of moving lines are
assumed: nobody publishes them for all of these cores.

A Cortex-A55 loads 64 bits in a cycle, and its vector units wait for both halves of a vector of 128:
two cycles in which no multiply-add begins (SLOTHY's model, made from Arm's Cortex-A55 Software
Optimization Guide; ncnn's "arm-a53-a55-dual-issue" measured the same).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cache:
    """A level of caches: its size and in how many ways it is divided."""

    kib: int
    ways: int


@dataclass(frozen=True)
class Core:
    """A core, as it is modelled.

    Attributes:
        name: as Arm calls it.
        mcpu: what odtc's kernels are compiled for; LLVM's name.
        midr: what it calls itself, by which the native runtime chooses among kernels.
        emulated: a CPU that QEMU 7.2 knows, by which libraries choose among their kernels.
        scheduling: LLVM's model of its pipelines, by the name that llvm-mca knows.
        stands_for: why it is another core's model; empty where it is its own.
        caches: of the three levels.
        width: instructions that it decodes in a cycle.
        multiplies: vector multiply-adds of 128 bits that it begins in a cycle.
        blocked: cycles in which it begins no multiply-add for a load of 128 bits.
        moves: bytes in a cycle from the second level, the third, and memory.
    """

    name: str
    mcpu: str
    midr: int
    emulated: str
    scheduling: str
    stands_for: str
    caches: tuple[Cache, Cache, Cache]
    width: int
    multiplies: int
    blocked: int
    moves: tuple[float, float, float]


CORES = {
    core.name: core
    for core in (
        Core(
            "Cortex-A55",
            mcpu="cortex-a55",
            midr=0x412FD050,
            emulated="cortex-a76",
            scheduling="cortex-a55",
            stands_for="",
            caches=(Cache(32, 4), Cache(128, 4), Cache(2048, 16)),
            width=2,
            multiplies=1,
            blocked=2,
            moves=(8.0, 4.0, 2.5),
        ),
        Core(
            "Cortex-A76",
            mcpu="cortex-a76",
            midr=0x414FD0B1,
            emulated="cortex-a76",
            scheduling="neoverse-n1",
            stands_for="LLVM has none of its own for it; the Neoverse N1 is its sibling",
            caches=(Cache(64, 4), Cache(512, 8), Cache(4096, 16)),
            width=4,
            multiplies=2,
            blocked=0,
            moves=(16.0, 8.0, 10 / 2.4),
        ),
        Core(
            "Cortex-X1",
            mcpu="cortex-x1",
            midr=0x411FD440,
            emulated="neoverse-n1",
            scheduling="neoverse-v1",
            stands_for="LLVM has none of its own for it; the Neoverse V1 is its sibling",
            caches=(Cache(64, 4), Cache(1024, 8), Cache(8192, 16)),
            width=5,
            multiplies=4,
            blocked=0,
            moves=(32.0, 16.0, 15 / 2.8),
        ),
        Core(
            "Cortex-X3",
            mcpu="cortex-x3",
            midr=0x411FD4E0,
            emulated="max,sve=off",
            scheduling="neoverse-v2",
            stands_for="LLVM has none of its own for it; the Neoverse V2 is its sibling",
            caches=(Cache(64, 4), Cache(1024, 8), Cache(8192, 16)),
            width=6,
            multiplies=4,
            blocked=0,
            moves=(32.0, 16.0, 20 / 3.2),
        ),
    )
}
