"""A loss that says that its step wrote numbers that are not finite: a NaN with the loss inside.

The payload of a float32 NaN has 22 bits: sign, exponent and the first 13 bits of the mantissa of
what the loss was. So whatever reads a loss is told, and nothing else has to be read.
"""

import math
import struct

# Bits of a quiet NaN, those of its payload, and those of a loss that have no room in it.
QUIET_NAN = 0x7FC00000
PAYLOAD = 0x003FFFFF
DROPPED = 10
# That of a loss of zero: a NaN without any payload is an arithmetic one.
LEAST_PAYLOAD = 1
# From this on the bits of a number without its sign are those of an infinity or a NaN.
INFINITE = 0x7F800000
MAGNITUDE = 0x7FFFFFFF


def marked(loss: float) -> float:
    """The marked loss that holds what `loss_inside` gave.

    Args:
        loss: finite.
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", loss))
    inside = max(bits >> DROPPED, LEAST_PAYLOAD)
    (value,) = struct.unpack("<f", struct.pack("<I", QUIET_NAN | inside))
    return value


def loss_inside(value: float) -> float | None:
    """The loss that a marked one holds, to a part in 16,000; None if it is not marked.

    Args:
        value: a loss as the step returned it, in any precision.
    """
    if not math.isnan(value):
        return None
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    inside = (bits & PAYLOAD) << DROPPED
    if not inside:
        return None
    # The middle of all that it may have been.
    (loss,) = struct.unpack("<f", struct.pack("<I", inside | 1 << DROPPED - 1))
    return loss if math.isfinite(loss) else None
