"""The forms of messages that a tracker takes: TVM's own checks none before it acts on one."""

from collections.abc import Callable
from typing import Any

from tvm.rpc.base import TrackerCode

# Letters of a device's name, or of a key.
MOST_LETTERS = 512
_LAST_PORT = (1 << 16) - 1


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MOST_LETTERS


def _is_address(host: Any, port: Any) -> bool:
    """TVM's server in C++ registers its port as text."""
    number = int(port) if isinstance(port, str) and port.isascii() and port.isdigit() else port
    return (host is None or _is_key(host)) and type(number) is int and 0 < number <= _LAST_PORT


def _is_info(info: Any) -> bool:
    address = info["addr"]
    fits = set(info) == {"key", "addr"} and _is_key(info["key"]) and isinstance(address, list)
    return fits and _is_address(*address)


def _is_offer(key: Any, at: Any, host: Any = None) -> bool:
    port, match = at
    # By the part in front of its last colon, the tracker finds the entries to drop.
    return (
        _is_key(key)
        and _is_key(match)
        and match.rpartition(":")[0] == key
        and _is_address(host, port)
    )


# Forms of the arguments of each code.
FORMS: dict[int, Callable[..., bool]] = {
    TrackerCode.PUT: _is_offer,
    TrackerCode.REQUEST: lambda key, user, priority: (
        _is_key(key) and isinstance(user, str) and type(priority) in (int, float)
    ),
    TrackerCode.PING: lambda: True,
    TrackerCode.GET_PENDING_MATCHKEYS: lambda: True,
    TrackerCode.STOP: _is_key,
    TrackerCode.UPDATE_INFO: _is_info,
    TrackerCode.SUMMARY: lambda: True,
}
