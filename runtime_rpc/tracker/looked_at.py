"""Servers of devices, asked whether a session could begin: a tracker only knows who waits."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.tracker import greeting
from odtc.runtime_rpc.tracker.trackers import Address

_AT_ONCE = 16


@dataclass(frozen=True)
class Looked:
    """What keeps a session from beginning at a server; both are empty where nothing is known to.

    Attributes:
        other: what is of another version or build there.
        silent: why it does not answer.
    """

    other: str = ""
    silent: str = ""


def look_at(addresses: Sequence[Address], seconds: float, where: str) -> list[Looked]:
    """Asks servers, all at the same time.

    Args:
        addresses: of them.
        seconds: within which each must answer.
        where: they are called in messages.
    """
    if not addresses:
        return []
    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE)) as pool:
        return list(pool.map(lambda each: _looked(each, seconds, where), addresses))


def _looked(address: Address, seconds: float, where: str) -> Looked:
    try:
        found = greeting.status(address, seconds, where)
    except DeviceError as error:
        return Looked(silent=error.what)
    # TVM's own server says nothing of itself.
    return Looked() if found is None else Looked(greeting.differences(found))
