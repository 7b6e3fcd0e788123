"""Holds the elements of 4-bit weights in bytes, which kernels can read.

To a dequantisation or a cast it is the same of how many bits they are. To others it is not, such as
to a QuantizeLinear, which rounds to the range of its zero point: what these read is left alone.
"""

from odtc.frontend.graph import Graph
from odtc.frontend.weights.evidence.uses import flattened

_BYTES = {"int4": "int8", "uint4": "uint8"}
# Operators to the slots whose elements may have any number of bits.
_READERS = {"Cast": (0,), "DequantizeLinear": (0, 2)}


def unpack(graph: Graph) -> None:
    """Unpacks constants of 4 bits in place."""
    packed = {name for name, value in graph.constants.items() if value.dtype.name in _BYTES}
    if not packed:
        return
    for node in flattened(graph.nodes):
        allowed = _READERS.get(node.op_type, ())
        packed -= {name for slot, name in enumerate(node.input) if slot not in allowed}
    for name in packed - {*graph.outputs}:
        value = graph.constants[name]
        graph.constants[name] = value.astype(_BYTES[value.dtype.name])
