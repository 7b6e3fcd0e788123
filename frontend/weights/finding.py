"""A finding: the kind of a float tensor, why, and where that is known from."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a float tensor."""

    PARAMETER = "parameter"
    FROZEN = "frozen parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


class Known(StrEnum):
    """Where a kind is known from."""

    FILE = "said by the file"
    RULE = "by rule"
    USER = "as told"


@dataclass(frozen=True)
class Finding:
    """The finding on a tensor.

    Attributes:
        kind: what it is.
        reason: why.
        known: where that is known from.
        is_doubtful: whether the user should hear of it.
    """

    kind: Kind
    reason: str
    known: Known = Known.RULE
    is_doubtful: bool = False


def said(kind: Kind, reason: str) -> Finding:
    """A finding that the file itself states."""
    return Finding(kind, reason, Known.FILE)


def parameter(reason: str, *, is_doubtful: bool = False) -> Finding:
    """A parameter, by its use."""
    return Finding(Kind.PARAMETER, reason, is_doubtful=is_doubtful)


def constant(reason: str, *, is_doubtful: bool = True) -> Finding:
    """A constant, by its use."""
    return Finding(Kind.CONSTANT, reason, is_doubtful=is_doubtful)
