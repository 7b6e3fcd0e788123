"""How many numbers a Range counts, without a bound.

ONNX's inference counts them in 64 bits: what these cannot hold becomes another number, often 0, and
the Range would be taken for one without elements.
"""

import math
from fractions import Fraction

import onnx

from odtc.core.errors import ModelError
from odtc.frontend.graph import MAX_ELEMENTS, Graph, describe_node, only


def require_countable(graph: Graph, node: onnx.NodeProto) -> None:
    """Checks that a Range of constants comes to an end, within the elements that odtc takes.

    Raises:
        ModelError: it does not.
    """
    numbers = [only(graph, node, slot) for slot in range(3)]
    if any(number is None for number in numbers):
        return
    start, limit, delta = numbers
    if all(map(math.isfinite, numbers)) and delta:
        # Floats hold no more of the difference of two large numbers than their own digits.
        count = math.ceil((Fraction(limit) - Fraction(start)) / Fraction(delta))
        if count <= MAX_ELEMENTS:
            return
    raise ModelError(
        f"from {start} to {limit} by {delta} is not a range of at most {MAX_ELEMENTS} elements",
        where=f"node {describe_node(node)}",
        hint="check the numbers that it reads, and the sizes that are given",
    )
