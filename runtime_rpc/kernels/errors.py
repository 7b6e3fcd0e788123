"""Failures of the native runtime while it runs kernels alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from odtc.core.errors import UnsupportedError
from odtc.runtime_rpc.guards import failures
from odtc.runtime_rpc.native.interface import Code, NativeError


@contextmanager
def kernel_errors(where: str) -> Iterator[None]:
    """A block whose failures are odtc's: those of the program apart from those of the device.

    Args:
        where: name of the session.

    Raises:
        UnsupportedError: the device does not take the program, as where it is beyond a limit, does
            not compile or needs more memory; others may run.
        DeviceError: the device failed.
    """
    try:
        yield
    except NativeError as error:
        if error.code is Code.DEVICE:
            raise failures.explained(error, where) from error
        raise UnsupportedError(str(error), where=where) from error
