"""Limits on the resources that peers may take; docs/security.md repeats the table.

A peer is dropped at its limit, with a reason if it can still read one. When there is no room for
one more, the least recently useful peer is dropped: so newcomers always get in, and the client of
the running session stays.
"""

from contextlib import suppress
from typing import Any

try:
    import resource
except ImportError:
    # Windows, which has no such limit.
    resource: Any = None

# A question, or a header of TVM's: both are far shorter.
QUESTION_BYTES = 1024
# Lists and objects within each other, in any message; ours have three.
DEPTH = 32
# Connections, of all peers and of one: an address of TCP, or a user of this device.
PEERS = 1024
PEERS_OF_ONE = 768
# Connections that may wait to be accepted, and how many are accepted in a turn.
BACKLOG = 1024
ACCEPTED_AT_ONCE = 64
# Seconds of turns between two looks at new connections; the peer that waited longest for a turn is
# first, and a newcomer counts as one that has waited so long.
TURNS_SECONDS = 0.05
NEWCOMER_SECONDS = 1.0
# Seconds from a connection to its greeting, or the whole header of TVM's.
GREETING_SECONDS = 10.0
# Seconds from one whole question to the next, as a multiple of a session's limit of silence.
IDLE_FACTOR = 2.0
# Answers to a peer that does not read them: above these bytes nothing more is read from it, and it
# is dropped when some have waited for so long.
WAITING_BYTES = 16384
WAITING_SECONDS = 5.0
# The system's own send buffer for such answers.
SEND_BUFFER_BYTES = 16384
# A refused peer may take this long to read the reason, and send as much meanwhile.
LEAVING_SECONDS = 1.0
LEAVING_BYTES = 1 << 20
# Lines a minute in the log about peers.
LINES_A_MINUTE = 30
# Files that the server keeps for all else: sessions, the tracker, the log.
SPARE_FILES = 64
# Pause in accepting where no file is left for a connection, and none can be freed.
NO_FILES_SECONDS = 0.5


def most_peers() -> int:
    """Raises the limit of open files as far as allowed; returns how many peers fit."""
    if not resource:
        return PEERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = PEERS + SPARE_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft == resource.RLIM_INFINITY:
        return PEERS
    return max(1, min(PEERS, soft - SPARE_FILES))
