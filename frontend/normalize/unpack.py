"""Holds the elements of 4-bit weights in bytes, which kernels can read.

To a dequantisation or a cast it is the same of how many bits they are. To others it is not, such as
to a QuantizeLinear, which rounds to the range of its zero point: what these read is left alone.
"""

import numpy as np

from odtc.core.disk.mapped_arrays import Copies, leave_pages
from odtc.frontend.graph import Graph
from odtc.frontend.weights.evidence.uses import flattened

_BYTES = {"int4": "int8", "uint4": "uint8"}
# Operators to the slots whose elements may have any number of bits.
_READERS = {"Cast": (0,), "DequantizeLinear": (0, 2)}
# Elements from which on a constant lies in a file, of which memory holds what is read.
_LARGE = 1 << 16


def unpack(graph: Graph) -> None:
    """Unpacks constants of 4 bits in place."""
    packed = {name for name, value in graph.constants.items() if value.dtype.name in _BYTES}
    if not packed:
        return
    for node in flattened(graph.nodes):
        allowed = _READERS.get(node.op_type, ())
        packed -= {name for slot, name in enumerate(node.input) if slot not in allowed}
    packed -= {*graph.outputs}
    with Copies() as copies:
        for name in packed:
            if graph.constants[name].size >= _LARGE:
                copies.put(name, _bytes_of(graph.constants[name]))
                leave_pages([graph.constants[name]])
        mapped = copies.mapped()
    for name in packed:
        value = graph.constants[name]
        found = mapped.get(name)
        graph.constants[name] = (
            _bytes_of(value)
            if found is None
            else found.view(_BYTES[value.dtype.name]).reshape(value.shape)
        )
    leave_pages(graph.constants[name] for name in packed)


def _bytes_of(value: np.ndarray) -> np.ndarray:
    return value.astype(_BYTES[value.dtype.name])
