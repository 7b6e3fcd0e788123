"""What a step, or a kernel of it, did, and the bounds of its cycles on a core."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.arm.blocks import LINE_BYTES, Block
from benchmarks.arm.cores import Core
from benchmarks.arm.cuts import joined
from benchmarks.arm.instructions import Kind, instruction
from benchmarks.arm.mca import Code, cycles_of
from benchmarks.arm.places import Place, Places

# llvm-mca is asked for the blocks that make this share of all instructions; the others are rare,
# and take as many cycles as they fill the decoder.
_MODELLED = 0.995


@dataclass
class Figures:
    """Counts of some blocks.

    Attributes:
        kinds: instructions by what they are.
        wide: vector multiply-adds of 128 bits.
        flops: floating-point operations that were executed.
        loaded: bytes that loads asked for.
        stored: bytes that stores wrote.
        missed: lines that each level of the core's caches did not have.
        walks: accesses whose page no buffer of translations had.
        written_back: lines that went to memory.
        pipeline: modelled cycles if every load hit the first level.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)
    wide: int = 0
    flops: int = 0
    loaded: int = 0
    stored: int = 0
    missed: tuple[int, int, int] = (0, 0, 0)
    walks: int = 0
    written_back: int = 0
    pipeline: float = 0.0

    def add(self, block: Block, cycles: float) -> None:
        """Adds a block, of which one run takes so many cycles."""
        for word in block.code:
            found = instruction(word)
            self.kinds[found.kind] += block.runs
            self.flops += block.runs * found.flops
            self.wide += block.runs * found.is_wide
        self.loaded += block.loaded
        self.stored += block.stored
        first, second, third = (a + b for a, b in zip(self.missed, block.missed, strict=True))
        self.missed = (first, second, third)
        self.walks += block.walks
        self.written_back += block.written_back
        self.pipeline += block.runs * cycles

    @property
    def instructions(self) -> int:
        """All of them."""
        return self.kinds.total()

    @property
    def multiply_add_share(self) -> float:
        """Share of vector multiply-adds among instructions."""
        return self.kinds[Kind.MULTIPLY_ADD] / max(self.instructions, 1)

    def transfers(self, core: Core) -> tuple[float, float, float]:
        """Cycles of moving lines from each level beyond the first, and from memory and back."""
        lines = (self.missed[0], self.missed[1], self.missed[2] + self.written_back)
        first, second, third = (
            count * LINE_BYTES / rate for count, rate in zip(lines, core.moves, strict=True)
        )
        return first, second, third

    def overlapped(self, core: Core) -> float:
        """Cycles if pipelines and each way of moving lines work at the same time: a lower bound."""
        return max(self.pipeline, *self.transfers(core))

    def apart(self, core: Core) -> float:
        """Cycles if each waits for all others: an upper bound."""
        return self.pipeline + sum(self.transfers(core))


@dataclass(frozen=True)
class Profile:
    """A step: all of it, and by where its code lies, the most cycles first."""

    total: Figures
    places: Mapping[Place, Figures]


def profile_of(blocks: Iterable[Block], places: Places, core: Core) -> Profile:
    """What a step did.

    Args:
        blocks: that ran in it.
        places: of the process.
        core: that it is modelled for.
    """
    blocks = joined(blocks)
    cycles = cycles_of(sorted(_chosen(blocks)), core)
    total, by_place = Figures(), defaultdict[Place, Figures](Figures)
    for block in blocks:
        each = cycles.get(block.code, len(block.code) / core.width)
        total.add(block, each)
        by_place[places.at(block.address)].add(block, each)
    ordered = sorted(by_place.items(), key=lambda item: -item[1].overlapped(core))
    return Profile(total, dict(ordered))


def totals_of(steps: Iterable[Iterable[Block]], core: Core) -> list[Figures]:
    """What each of many steps did in all, whose blocks are modelled together.

    Args:
        steps: the blocks that ran in each.
        core: that they are modelled for.
    """
    joint = [joined(blocks) for blocks in steps]
    cycles = cycles_of(sorted({code for blocks in joint for code in _chosen(blocks)}), core)
    found: list[Figures] = []
    for blocks in joint:
        found.append(total := Figures())
        for block in blocks:
            total.add(block, cycles.get(block.code, len(block.code) / core.width))
    return found


def _chosen(blocks: Sequence[Block]) -> set[Code]:
    """The blocks in which nearly all instructions are."""
    every = sum(block.runs * len(block.code) for block in blocks)
    chosen, reached = set[Code](), 0
    for block in sorted(blocks, key=lambda each: -each.runs * len(each.code)):
        if reached > _MODELLED * every:
            break
        chosen.add(block.code)
        reached += block.runs * len(block.code)
    return chosen


def floor(flops: int, core: Core) -> float:
    """Cycles of so many operations if every one were part of a vector multiply-add in float32."""
    return flops / (8 * core.multiplies)
