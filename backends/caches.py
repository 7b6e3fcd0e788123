"""What cores of 64-bit ARM find in their caches, by LLVM's names of them.

Sizes are those that Arm's Technical Reference Manuals allow and phones usually have; of a cache
that cores share, a core's share.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Caches:
    """What a core has near it.

    Attributes:
        first: bytes of the first level.
        second: bytes of the second level.
        loaded: bytes that a register gets from the first one in a cycle. A core that takes several
            for a vector multiplies nothing meanwhile.
    """

    first: int
    second: int
    loaded: int = 16


_KIB = 1 << 10
_LITTLE = Caches(32 * _KIB, 128 * _KIB)
_NARROW = Caches(32 * _KIB, 128 * _KIB, loaded=8)
_OLDER = Caches(32 * _KIB, 512 * _KIB)
_USUAL = Caches(64 * _KIB, 512 * _KIB)
_LARGE = Caches(64 * _KIB, 1024 * _KIB)
_CACHES = {
    "generic": _OLDER,
    "cortex-a35": _NARROW,
    "cortex-a53": _NARROW,
    "cortex-a55": _NARROW,
    "cortex-a57": _OLDER,
    "cortex-a72": _OLDER,
    "cortex-a510": _LITTLE,
    "cortex-a520": _LITTLE,
    "cortex-x1": _LARGE,
    "cortex-x2": _LARGE,
    "cortex-x3": _LARGE,
    "cortex-x4": _LARGE,
    "cortex-x925": _LARGE,
}


def caches_of(cores: Iterable[str | None]) -> Caches:
    """What every one of some cores has, by LLVM's names; others than those above are usual ones."""
    found = [_CACHES.get(core or "", _USUAL) for core in cores]
    return Caches(
        min(each.first for each in found),
        min(each.second for each in found),
        min(each.loaded for each in found),
    )
