"""Fields of bytes in protobuf's encoding, for models that protobuf would copy to encode."""

# The type of such fields.
BYTES = 2


def field_head(number: int, length: int) -> bytes:
    """What stands in front of a field of so many bytes.

    Args:
        number: of the field in its message.
        length: of what follows.
    """
    return varint(number << 3 | BYTES) + varint(length)


def varint(value: int) -> bytes:
    """A number, seven bits to a byte, the lowest first."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
