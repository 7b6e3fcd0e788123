"""Few of many sizes, about as far from each other."""

from collections.abc import Sequence


def spaced(sizes: Sequence[int], count: int) -> list[int]:
    """Numbers of at most `count` + 1 sizes, in their order: the first, the last and some between.

    Each but the last is smaller than the one before by a `count`-th of all that sizes sink.

    Args:
        sizes: sinking.
        count: positive.
    """
    found: list[int] = []
    for number, size in enumerate(sizes):
        is_last = number == len(sizes) - 1
        if not found or is_last or (sizes[found[-1]] - size) * count >= sizes[0] - sizes[-1]:
            found.append(number)
    return found
