"""Buffers that lie at fixed places within one another, merged into one before anything is placed.

A family is a host with all its parts, and the parts of these. It is placed as one block, alive from
the first time of any member to the last of any: sound, and exact where the host outlives its parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from odtc.passes.memory.packing.problem import LARGEST, Buffer


@dataclass(frozen=True)
class BufferFamily:
    """Buffers that are placed together.

    Attributes:
        lower: the first time at which one of them is alive.
        upper: the first time at which none is any more.
        size: bytes of the host.
        alignment: of the host, so that every member keeps its own.
        members: id of each, with its place within the host.
    """

    lower: int
    upper: int
    size: int
    alignment: int
    members: tuple[tuple[str, int], ...]


def families_of(buffers: Sequence[Buffer]) -> list[BufferFamily]:
    """Families in the order of their hosts.

    Raises:
        ValueError: a host is unknown or a part of its own part; a part is not inside its host, or
            lies where its alignment cannot be kept.
    """
    by_id = {buffer.id: buffer for buffer in buffers}
    members: dict[str, list[tuple[Buffer, int]]] = {
        buffer.id: [] for buffer in buffers if buffer.host is None
    }
    for buffer in buffers:
        root, at = _root(buffer, by_id)
        if at % buffer.alignment:
            raise ValueError(
                f"buffer {buffer.id} lies at {at} within {root}: not a multiple of its alignment, "
                f"{buffer.alignment}"
            )
        members[root].append((buffer, at))
    return [_family(by_id[root], found) for root, found in members.items()]


def _root(buffer: Buffer, by_id: dict[str, Buffer]) -> tuple[str, int]:
    """The outermost host, and the place within it."""
    at, inner = 0, buffer
    for _ in by_id:
        if inner.host is None:
            return inner.id, at
        host = by_id.get(inner.host)
        if host is None:
            raise ValueError(f"buffer {inner.id} is within {inner.host}, which does not exist")
        if inner.at + inner.size > host.size:
            raise ValueError(
                f"buffer {inner.id} ends at {inner.at + inner.size} within {host.id}, which has "
                f"{host.size} bytes"
            )
        at, inner = at + inner.at, host
    raise ValueError(f"buffer {buffer.id} is within itself")


def _family(root: Buffer, found: list[tuple[Buffer, int]]) -> BufferFamily:
    alignment = math.lcm(*(buffer.alignment for buffer, _ in found))
    if alignment >= LARGEST:
        raise ValueError(f"alignments within buffer {root.id} have no common multiple below 2**40")
    return BufferFamily(
        lower=min(buffer.lower for buffer, _ in found),
        upper=max(buffer.upper for buffer, _ in found),
        size=root.size,
        alignment=alignment,
        members=tuple((buffer.id, at) for buffer, at in found),
    )
