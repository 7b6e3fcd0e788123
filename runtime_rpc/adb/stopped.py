"""Whether the user of a phone has stopped it, so that what was at work there leaves it alone."""

from odtc.runtime_rpc.adb import state


def was_stopped(serial: str) -> bool:
    """Whether a phone that had been set up from here was stopped since.

    A session may end before `odtc device stop` does, which is waited for.
    """
    with state.alone(serial):
        return state.find(serial) is None
