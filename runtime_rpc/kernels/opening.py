"""Where programs of kernels are opened: in this process, or on the device of a session."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import numpy as np

from odtc.backends.program.running import OpenKernels
from odtc.runtime_rpc.kernels.here import kernels_here
from odtc.runtime_rpc.sessions.session import Session


def kernels_on(
    session: Session, arguments: Mapping[str, np.ndarray]
) -> AbstractContextManager[OpenKernels]:
    """A block in which programs are opened on the GPU of a session.

    Args:
        session: with the GPU.
        arguments: of all of them, by name.
    """
    if session.is_local:
        return kernels_here(arguments, session.name)
    from odtc.runtime_rpc.kernels.there import kernels_there
    from odtc.runtime_rpc.sessions.remote import RemoteSession

    assert isinstance(session, RemoteSession)
    return kernels_there(session, arguments)
