"""Damage to the bytes of the file."""

from random import Random

from tests.fuzz.mutant import Mutant


def none(_: Random, mutant: Mutant) -> None:
    """The model as it is."""


def flipped_bits(rng: Random, mutant: Mutant) -> None:
    data = bytearray(mutant.serialized())
    for _ in range(rng.choice([1, 1, 1, 3, 20])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    mutant.data = bytes(data)


def changed_bytes(rng: Random, mutant: Mutant) -> None:
    data = bytearray(mutant.serialized())
    for _ in range(rng.choice([1, 2, 8])):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    mutant.data = bytes(data)


def truncated(rng: Random, mutant: Mutant) -> None:
    data = mutant.serialized()
    mutant.data = data[: rng.randrange(len(data))]


def lost_bytes(rng: Random, mutant: Mutant) -> None:
    data = bytearray(mutant.serialized())
    at = rng.randrange(len(data))
    del data[at : at + rng.choice([1, 2, 4, 64])]
    mutant.data = bytes(data)


def repeated_bytes(rng: Random, mutant: Mutant) -> None:
    data = mutant.serialized()
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice([2, 16, 256]))
    mutant.data = data[:end] + data[start:end] * rng.choice([1, 3]) + data[end:]


def appended_bytes(rng: Random, mutant: Mutant) -> None:
    mutant.data = mutant.serialized() + rng.randbytes(rng.choice([1, 8, 100]))


def nested_messages(rng: Random, mutant: Mutant) -> None:
    """Graphs in attributes of nodes of graphs, deeper than a parser goes."""
    data = b""
    for depth in range(rng.choice([30, 99, 101, 3000])):
        # AttributeProto.g, NodeProto.attribute, GraphProto.node.
        data = b"\x32\x2a\x0a"[depth % 3 : depth % 3 + 1] + _varint(len(data)) + data
    mutant.data = mutant.serialized() + b"\x3a" + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """A number as protobuf writes lengths."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


MUTATIONS = (
    *(none, flipped_bits, changed_bytes, truncated, lost_bytes, repeated_bytes),
    *(appended_bytes, nested_messages),
)
