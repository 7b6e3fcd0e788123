"""TVM where it is not installed: the native runtime trains without it, and all else needs it.

Whoever needs it imports it late, from many places, so that what is missing is said at the few doors
that a user comes in by: public functions, names of the package, and the command line.
"""

from odtc.core.errors import UnsupportedError

_NAMES = ("tvm", "tvm_ffi")


def is_tvm(error: ModuleNotFoundError) -> bool:
    """Whether it is TVM that cannot be imported."""
    return (error.name or "").partition(".")[0] in _NAMES


def tvm_is_missing(where: str | None = None) -> UnsupportedError:
    """The error of what needs TVM.

    Args:
        where: what its user calls that.
    """
    return UnsupportedError(
        "TVM is not installed, and this needs it",
        where=where,
        hint="install apache-tvm; only training an artifact on the CPU of this machine needs none",
    )
