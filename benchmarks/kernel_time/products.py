"""Which products a step has, and which calls of kernels compute them.

A kernel may be fused, and its tensors may be reshaped, but their sizes tell what it is: a layer
with input x, weight w and output y has three products: y of x and w, dx of dy and w, dw of x and
dy. Kernels of other names are none, whatever the sizes of their tensors.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.kernel_time.calls import KernelCall

FORWARD, DATA, WEIGHT = "forward", "data gradient", "weight gradient"
# In the names of our kernels for products and of TVM's, also where they are fused with others.
_NAMED = re.compile("forward|gradient|matmul|conv|depthwise|grouped|product")


@dataclass(frozen=True)
class ProductLayer:
    """Layers whose products have the same sizes.

    Attributes:
        names: of the layers, by their weights where they have some.
        sizes: elements of x, w and y.
        flops: operations of one product of one layer.
    """

    names: tuple[str, ...]
    sizes: tuple[int, int, int]
    flops: int


@dataclass(frozen=True)
class LayerProduct:
    """The product that a call computes.

    Attributes:
        kind: `forward`, `data gradient` or `weight gradient`.
        layer: of which layers.
        flops: operations.
    """

    kind: str
    layer: ProductLayer
    flops: int


def products_of(
    calls: Sequence[KernelCall], layers: Sequence[ProductLayer]
) -> list[LayerProduct | None]:
    """Returns the product of each call of a step, in order; None where it is no product."""
    seen: Counter[tuple[ProductLayer, str]] = Counter()
    found = []
    for call in calls:
        product = _product(call, layers, seen)
        if product is not None:
            seen[product.layer, product.kind] += product.flops // product.layer.flops
        found.append(product)
    return found


def _product(
    call: KernelCall, layers: Sequence[ProductLayer], seen: Mapping[tuple[ProductLayer, str], int]
) -> LayerProduct | None:
    """Returns the product of a call, given those that were seen before it.

    Where the sizes fit several products, the kernel's name may say which one it is; else it is that
    whose operands come first in the call, since those of fused operators follow, and of these the
    first in the order of a step that has not been seen for each layer.
    """
    if not _NAMED.search(call.name) or len(call.shapes) < 3:
        return None
    fitting = [
        (times, place, kind, layer)
        for layer in layers
        for kind, (times, place) in _kinds(call.sizes, layer).items()
        if seen[layer, kind] + times <= len(layer.names)
    ]
    said = [each for each in fitting if each[2].replace(" ", "_") in call.name]
    fitting = said or fitting
    if not fitting:
        return None
    times, _, kind, layer = min(fitting, key=lambda each: each[:2])
    return LayerProduct(kind, layer, times * layer.flops)


def _kinds(sizes: Sequence[int], layer: ProductLayer) -> dict[str, tuple[int, int]]:
    """Returns the products that a kernel with tensors of these sizes may compute.

    Returns:
        For each kind the number of products, above 1 where those that a weight gets from many steps
        became one; and how far behind the operands come in the call.
    """
    *read, written = sizes
    x, w, y = layer.sizes
    kinds = {}
    if written == y and _holds(read, x, w):
        kinds[FORWARD] = 1, read.index(x) + read.index(w)
    if written == x and _holds(read, y, w):
        kinds[DATA] = 1, read.index(y) + read.index(w)
    steps = [size for size in read if size % x == 0 and _holds(read, size, size // x * y)]
    if written == w and steps:
        least = min(steps) // x
        kinds[WEIGHT] = least, read.index(least * x) + read.index(least * y)
    return kinds


def _holds(read: Sequence[int], *wanted: int) -> bool:
    """Whether these sizes are among those that are read, each as often."""
    return Counter(wanted) <= Counter(read)
