"""What a step of a sum takes in tiles of ARM's cores, by counts of an emulator: none is a time.

`python -m benchmarks.arm.fit --write` counts, and writes the tables: products of packed matrices of
float32, as LLVM compiles them for a core, by LLVM's model of that core's pipelines.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class CountedTiles:
    """Modelled cycles of a step of the sum, by rows and vectors of a tile.

    Attributes:
        cycles: of the tiles that were counted, the likely ones.
    """

    cycles: Mapping[tuple[int, int], float]


# Of a machine without counts, which goes by its model alone.
NOT_COUNTED = CountedTiles({})

# A Cortex-A55, whose loads are narrower than its vectors. Of a Cortex-A76 such counts chose worse
# tiles than the model does alone, which expects one load in a cycle: docs/design/log.md.
OF_SMALL_CORES = CountedTiles(
    {
        (6, 1): 9.34,
        (8, 1): 11.66,
        (9, 1): 12.76,
        (10, 1): 13.73,
        (11, 1): 14.53,
        (12, 1): 15.68,
        (15, 1): 18.77,
        (5, 2): 14.27,
        (6, 2): 16.32,
        (7, 2): 18.45,
        (8, 2): 20.47,
        (9, 2): 22.48,
        (10, 2): 24.54,
        (11, 2): 26.64,
        (12, 2): 28.66,
        (14, 2): 53.66,
        (5, 3): 21.31,
        (6, 3): 24.36,
        (7, 3): 27.55,
        (8, 3): 30.55,
        (9, 3): 51.37,
        (5, 4): 29.08,
        (6, 4): 33.29,
        (7, 4): 58.03,
    }
)
