"""Layouts of a batch of images: the order of samples, channels, rows and columns in memory."""

from collections.abc import Sequence

# Channels second, as ONNX has them, and last.
SECOND, LAST = "NCHW", "NHWC"


def permuted(shape: Sequence[int], to: str) -> tuple[int, ...]:
    """The shape of images in one of the two layouts, from that in the other one."""
    first, *rest = shape
    return (first, *rest[1:], rest[0]) if to == LAST else (first, rest[-1], *rest[:-1])


def is_same_in_both(shape: Sequence[int]) -> bool:
    """Whether images of a shape, with channels second, lie alike in both layouts."""
    _, channels, rows, columns = shape
    return channels == 1 or rows * columns == 1
