"""The description of a GPU that kernels are written for."""

from dataclasses import dataclass

from odtc.backends.cost.gpu_rates import OF_H100, OF_PHONES, Rates
from odtc.backends.decisions import MachineModel
from odtc.backends.gpu.tile_speeds import ATTENTION, OF_H200, AttentionSpeed, TileSpeed
from odtc.backends.gpu.tile_speeds import OF_PHONES as TILES_OF_PHONES


@dataclass(frozen=True)
class Gpu(MachineModel):
    """A GPU, as far as kernels depend on it: the shapes that it prefers, and its limits.

    Attributes:
        group: work-items of the groups that kernels are cut into, a power of two.
        accumulators: register budget of a product: the most sums that a work-item holds.
        groups: work-groups that keep the GPU busy; sums are cut into parts to have as many.
        units: that compute groups at once; 1 where that is not known.
        tiles: of products, with their speeds.
        rates: what it computes and moves in a second.
        attention: tiles of scores, with their speeds.
        attention_sums: most sums that an item holds in attention.
        split_bytes: most bytes of such parts.
        offset_bits: width of an element's offset in an arena.
        most_items: most work-items of a group.
        local_bytes: most bytes of a group's shared memory.
        argument_bytes: most bytes of a kernel's arguments in OpenCL.
        buffers: most buffers of a kernel in Vulkan; None where the device is queried.
        half: interfaces through which it computes with float16, by TVM's names of their targets.
        multiplies_half: whether products round what they multiply to float16, where that pays.
        subgroup: items that multiply matrices of 16 x 16 float16 together; 0 where none do.
        matrix_tiles: of products that do, with their speeds.
        images: whether it reads images through a cache that buffers bypass.
    """

    group: int = 256
    accumulators: int = 64
    groups: int = 128
    units: int = 1
    tiles: tuple[TileSpeed, ...] = TILES_OF_PHONES
    rates: Rates = OF_PHONES
    attention: tuple[AttentionSpeed, ...] = ATTENTION
    attention_sums: int = 128
    split_bytes: int = 4 << 20
    offset_bits: int = 32
    most_items: int = 256
    local_bytes: int = 16 << 10
    argument_bytes: int = 1024
    buffers: int | None = 16
    half: frozenset[str] = frozenset()
    multiplies_half: bool = False
    subgroup: int = 0
    matrix_tiles: tuple[TileSpeed, ...] = ()
    images: bool = False

    @property
    def multiplies(self) -> str:
        """The narrowest type that its products may multiply."""
        return "float16" if self.multiplies_half else "float32"


# Any GPU of a phone; and one that computes hundreds of groups at once, with memory for their sums,
# as an H100 or H200.
PHONE = Gpu()
LARGE = Gpu(
    groups=256,
    units=132,
    tiles=OF_H200,
    rates=OF_H100,
    attention_sums=160,
    split_bytes=64 << 20,
    offset_bits=64,
    local_bytes=32 << 10,
    buffers=None,
)
