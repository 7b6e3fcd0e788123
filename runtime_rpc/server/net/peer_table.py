"""The table of connected peers, and the choice of the one to drop when there is no room."""

from collections import Counter
from collections.abc import Callable, Iterator
from socket import socket
from typing import Generic, Protocol, TypeVar

from odtc.runtime_rpc.server.net import bounds


class Member(Protocol):
    """A connected peer.

    Attributes:
        socket: the connection; open.
        owner: of the connection; see `accepting.owner`.
    """

    socket: socket
    owner: str


M = TypeVar("M", bound=Member)


class PeerTable(Generic[M]):
    """Peers by the number of their file, least recently useful first.

    Args:
        most: of them.
        stays: whether a peer must not be dropped for another one.
    """

    def __init__(self, most: int, stays: Callable[[M], bool]) -> None:
        self.most = most
        # Where few files may be open, one owner may not have all of them either.
        self._of_one = max(1, min(bounds.PEERS_OF_ONE, most * 3 // 4))
        self._stays = stays
        self._peers: dict[int, M] = {}
        self._owners: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[M]:
        return iter(list(self._peers.values()))

    def get(self, number: int) -> M | None:
        """The peer with that file, if there is one."""
        return self._peers.get(number)

    def add(self, peer: M) -> None:
        """Adds a peer."""
        self._peers[peer.socket.fileno()] = peer
        self._owners[peer.owner] += 1

    def remove(self, peer: M) -> None:
        """Removes a peer; its socket is still open."""
        del self._peers[peer.socket.fileno()]
        self._owners[peer.owner] -= 1
        self._owners += Counter()

    def was_useful(self, peer: M) -> None:
        """Moves a peer behind all others."""
        number = peer.socket.fileno()
        self._peers[number] = self._peers.pop(number)

    def one_too_many(self, owner: str) -> tuple[str, M | None] | None:
        """Returns why a peer must be dropped before an owner gets one more, and which, or None.

        The peer is None if none may be dropped.
        """
        if self._owners[owner] >= self._of_one:
            return f"{self._of_one} connections of one peer are the most", self.last(owner)
        if len(self) >= self.most:
            return f"{self.most} connections are the most", self.last()
        return None

    def last(self, owner: str | None = None) -> M | None:
        """Returns the least recently useful peer that may be dropped, of all or of an owner's."""
        found = (peer for peer in self._peers.values() if owner in (None, peer.owner))
        return next((peer for peer in found if not self._stays(peer)), None)
