"""How the subgroups of a work-group share a tile, in matrices of 16 x 16 elements.

A subgroup reads a matrix of the rows for all of its columns, and one of the columns for all of its
rows: the more square its part of the tile is, the less it reads for each product.
"""

from dataclasses import dataclass

from odtc.core.ir.matrix_calls import SIZE

# Elements between the rows of a slice in shared memory: so 16 bytes of each of eight rows lie in
# different banks.
APART = 8
# The same of results that a subgroup hands to its items.
_RESULTS_APART = 4


@dataclass(frozen=True)
class Grid:
    """The subgroups of a tile, and the matrices of each.

    Attributes:
        down: subgroups along the rows.
        across: along the columns.
        rows: matrices of a subgroup along the rows.
        columns: along the columns.
    """

    down: int
    across: int
    rows: int
    columns: int

    @property
    def width(self) -> int:
        """Columns of a subgroup."""
        return self.columns * SIZE

    @property
    def together(self) -> int:
        """Matrices side by side that a subgroup hands to its items at once."""
        return 2 if self.columns % 2 == 0 else 1

    @property
    def pitch(self) -> int:
        """Floats from one row of what is handed to the next."""
        return self.together * SIZE + _RESULTS_APART

    @property
    def handed(self) -> int:
        """Floats of shared memory by which the group hands results to its items."""
        return self.down * self.across * SIZE * self.pitch


def grid_of(height: int, width: int, subgroups: int) -> Grid | None:
    """The grid of a tile that reads least; None where subgroups have no whole matrices each."""
    grids = [
        Grid(down, across, height // (down * SIZE), width // (across * SIZE))
        for down in range(1, subgroups + 1)
        if subgroups % down == 0
        and height % (down * SIZE) == 0
        and width % ((across := subgroups // down) * SIZE) == 0
    ]
    return min(grids, key=lambda grid: (grid.rows + grid.columns, grid.down), default=None)


def pitch_of(terms: int, width: int, *, along_sum: bool) -> int:
    """Elements from one row of a slice to the next: rows are terms, or hold them, `along_sum`."""
    return (terms if along_sum else width) + APART


def slice_elements(terms: int, width: int) -> int:
    """Most elements of shared memory for a slice of an operand."""
    return max(terms * (width + APART), width * (terms + APART))
