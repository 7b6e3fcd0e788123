"""How fast tiles of products and of attention are, relative to the fastest of the same GPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TileSpeed:
    """A tile that kernels may take.

    Attributes:
        rows: results of a work-item along the rows.
        columns: along the columns.
        share: of the GPU's usual group that takes the tile: 1 over so much.
        terms: of a slice of the sum, in float32.
        speed: multiply-adds a second, where the GPU has as many tiles as it likes.
    """

    rows: int
    columns: int
    share: int
    terms: int
    speed: float


# A larger tile reads the memory that its group shares less often for each product, and half a group
# reads a slice for fewer products.
OF_PHONES = tuple(
    TileSpeed(rows, columns, share, 8, speed * times)
    for rows, columns, speed in ((8, 8, 1.0), (4, 8, 0.85), (4, 4, 0.7), (2, 4, 0.5), (1, 2, 0.25))
    for share, times in ((1, 1.0), (2, 0.95))
)
# Measured on an H200, where every unit has as many tiles: products of BERT-base, and of
# 4,224 x 1,024 by 1,024 x 3,072. 1.0 is 45 TFLOP/s through OpenCL, 42 through Vulkan. Of tiles for
# 16 rows or 32 columns the speed is an estimate, by what they read of shared memory. That of whole
# groups of 8 x 6 through Vulkan is from steps of six networks on an H100: where only Vulkan took
# such tiles kernels took 1.30 times OpenCL's time, and 1.11 where both had one tile.
OF_H200 = (
    TileSpeed(8, 8, 2, 16, 1.0),
    TileSpeed(8, 8, 1, 8, 0.97),
    TileSpeed(8, 6, 2, 16, 0.91),
    TileSpeed(8, 6, 1, 16, 0.9),
    TileSpeed(6, 8, 1, 16, 0.9),
    TileSpeed(12, 4, 2, 16, 0.87),
    TileSpeed(8, 4, 1, 16, 0.85),
    TileSpeed(8, 4, 2, 16, 0.82),
    TileSpeed(4, 8, 1, 16, 0.78),
    TileSpeed(4, 8, 2, 16, 0.72),
    TileSpeed(4, 8, 4, 16, 0.68),
    TileSpeed(4, 4, 1, 16, 0.67),
    TileSpeed(8, 2, 2, 16, 0.58),
    TileSpeed(2, 4, 1, 8, 0.5),
    TileSpeed(2, 4, 2, 8, 0.48),
    TileSpeed(1, 2, 1, 8, 0.25),
    TileSpeed(1, 2, 2, 8, 0.24),
)
OF_H200_VULKAN = (
    TileSpeed(8, 8, 2, 16, 1.0),
    TileSpeed(8, 6, 2, 16, 0.98),
    TileSpeed(8, 8, 1, 8, 0.96),
    TileSpeed(8, 6, 1, 16, 0.88),
    TileSpeed(6, 8, 1, 16, 0.88),
    TileSpeed(12, 4, 2, 16, 0.87),
    TileSpeed(8, 4, 1, 16, 0.82),
    TileSpeed(8, 4, 2, 16, 0.79),
    TileSpeed(4, 8, 1, 16, 0.77),
    TileSpeed(4, 8, 2, 16, 0.71),
    TileSpeed(4, 8, 4, 16, 0.67),
    TileSpeed(4, 4, 1, 16, 0.65),
    TileSpeed(8, 2, 2, 16, 0.57),
    TileSpeed(2, 4, 1, 8, 0.5),
    TileSpeed(2, 4, 2, 8, 0.48),
    TileSpeed(1, 2, 1, 8, 0.25),
    TileSpeed(1, 2, 2, 8, 0.24),
)
OF_H200_MATRICES = (
    TileSpeed(8, 8, 1, 32, 1.0),
    TileSpeed(16, 8, 2, 16, 0.99),
    TileSpeed(8, 8, 2, 32, 0.97),
    TileSpeed(4, 4, 1, 32, 0.81),
    TileSpeed(8, 4, 1, 32, 0.75),
    TileSpeed(8, 8, 4, 32, 0.7),
    TileSpeed(4, 4, 2, 32, 0.67),
    TileSpeed(4, 4, 4, 32, 0.4),
)


@dataclass(frozen=True)
class AttentionSpeed:
    """A tile that attention may take (`backends/gpu/attention/tile.py`).

    Attributes:
        rows: scores of a work-item along the rows.
        columns: along the columns.
        down: items of a group along the rows.
        terms: of the sums of a slice.
        speed: scores a second, where the GPU has as many tiles as it likes.
    """

    rows: int
    columns: int
    down: int
    terms: int
    speed: float


# Larger ones read less of what the group shares for each product, but are further over the edge of
# what there is. Rows of a tile are a multiple of 32, as `attention/memory.py` assumes. Speeds are
# of an H200, of 128 to 512 steps of 64 elements; those of 4 x 2 and 2 x 2 are estimates.
ATTENTION = (
    AttentionSpeed(8, 4, 8, 16, 1.0),
    AttentionSpeed(8, 4, 8, 8, 0.9),
    AttentionSpeed(4, 4, 8, 16, 0.78),
    AttentionSpeed(4, 2, 8, 16, 0.5),
    AttentionSpeed(2, 2, 16, 16, 0.4),
)
# NVIDIA's compiler for Vulkan takes 171 to 199 registers of an item for slices of 16 terms by 8 x 4
# scores, so that few groups run at a time.
ATTENTION_OF_VULKAN = (
    AttentionSpeed(8, 4, 8, 8, 1.0),
    AttentionSpeed(4, 4, 8, 16, 0.95),
    *ATTENTION[3:],
)
