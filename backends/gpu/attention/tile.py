"""How attention is cut on a GPU."""

from dataclasses import dataclass

from odtc.backends.gpu.multiply import ACROSS, Arithmetic
from odtc.backends.kernels.attention.layout import Heads

# Numbers between the rows of a slice whose elements items side by side write.
APART = 4
_FLOAT = 4


@dataclass(frozen=True)
class AttentionTile:
    """The scores that a group has at once.

    Attributes:
        rows: of an item: queries where the adjoints of keys are not asked for, or else keys.
        columns: of an item: the others.
        down: items of a group along the rows; along the columns there are `ACROSS`.
        terms: of the sums of a slice.
    """

    rows: int
    columns: int
    down: int
    terms: int

    @property
    def items(self) -> int:
        """Of a group."""
        return self.down * ACROSS

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.rows * self.down

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.columns * ACROSS

    @property
    def arithmetic(self) -> Arithmetic:
        """Of its products."""
        return Arithmetic("float32", self.terms)

    def numbers(self, heads: Heads) -> tuple[int, int, int, int]:
        """Float32 of what a group shares: slices of rows and of columns, scores, and of each row.

        Args:
            heads: the attention.
        """
        across = max(self.width + APART, *(columns_of(each) * ACROSS for each in _sizes(heads)))
        return (
            self.terms * (self.height + APART),
            self.terms * across,
            self.width * self.height,
            self.height * ACROSS,
        )

    def local_bytes(self, heads: Heads) -> int:
        """Bytes of what a group shares."""
        return sum(self.numbers(heads)) * _FLOAT

    def scores(self, heads: Heads) -> int:
        """That are computed of a head, those past the last step too: by queries and by keys."""
        queries, keys = heads.queries, heads.keys
        return sum(
            _whole(steps, self.height) * _whole(others, self.width)
            for steps, others in ((queries, keys), (keys, queries))
        )

    def sums(self, heads: Heads) -> int:
        """That an item holds at once, at most: adjoints of scores, of keys and of values."""
        return self.rows * (self.columns + sum(map(columns_of, _sizes(heads))))


def columns_of(size: int) -> int:
    """Elements of a step that an item has, if all items across have as many."""
    return -(-size // ACROSS)


def _sizes(heads: Heads) -> tuple[int, int]:
    return heads.width, heads.depth


def _whole(steps: int, part: int) -> int:
    """Steps of so many whole parts as hold them."""
    return -(-steps // part) * part
