"""How many elements of an operand lie side by side in memory, so that vectors of them can be read.

Tensors begin at multiples of `TENSOR_ALIGNMENT` bytes, so where a run is a multiple of a vector,
each vector lies at a multiple of its size.
"""

import math
from collections.abc import Sequence

from tvm import tirx

from odtc.backends.kernels.common.places import Readable
from odtc.backends.kernels.convolution.grid import ConvolutionAxis


def run_of(tensor: Readable, first: int) -> int:
    """Elements of the axes from `first` on; 1 of a tensor that is computed or not of floats."""
    dtype = str(getattr(tensor, "dtype", None))
    if not isinstance(tensor, tirx.Buffer) or dtype not in ("float32", "float16"):
        return 1
    return math.prod(int(size) for size in tensor.shape[first:])


def run_of_weights(weights: Readable) -> int:
    """Neighbours along the input channels of a convolution's weights: all, if it has one tap."""
    _, _, *taps = (int(size) for size in weights.shape)
    return run_of(weights, 1) if math.prod(taps) == 1 else 1


def run_of_image(image: Readable, axes: Sequence[ConvolutionAxis]) -> int:
    """Neighbours along the positions of a window: a plane, if each reads what lies in its place."""
    return run_of(image, 2) if all(axis.is_point for axis in axes) else 1
