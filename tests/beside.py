"""Runs the tests beside another check: both have to pass, and one that fails ends the other.

    python -m tests.beside .venv/bin/pyright .venv/bin/python -m pytest -n auto

The first word is the check, all others are the tests, which have the terminal. What the check says
is told in one piece once both have ended. A type checker wants one core for a minute, and tests
often wait for something else.
"""

import shlex
import signal
import subprocess
import sys
from tempfile import TemporaryFile

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
# `si_code` of signals that the kernel sends: with Ctrl-C, to all processes of the terminal.
_BY_THE_KERNEL = 0x80


def beside(check: list[str], tests: list[str]) -> int:
    """Runs both; the status of the first that failed, or 128 and the signal that ended them."""
    # A shell lets its jobs in the background ignore interrupts, and so would these two.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with TemporaryFile() as said:
        checked = subprocess.Popen(check, stdout=said, stderr=said)
        tested = subprocess.Popen(tests)
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        status = _watched([checked, tested])
        # What it says of being interrupted is nothing that it has found.
        if checked.returncode != -signal.SIGINT:
            said.seek(0)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    return status


def _watched(running: list[subprocess.Popen[bytes]]) -> int:
    """Waits until all have ended; once one fails, or this process is told to end, all are."""
    status = 0
    while running:
        failed = [code for each in running if (code := each.poll())]
        running = [each for each in running if each.returncode is None]
        if failed and not status:
            # That of a process that a signal ended is the signal, negated.
            status = failed[0] if failed[0] > 0 else 128 - failed[0]
            _interrupt(running)
        told = signal.sigwaitinfo(_WATCHED) if running else None
        if told and told.si_signo != signal.SIGCHLD and not status:
            status = 128 + told.si_signo
            if told.si_code != _BY_THE_KERNEL:
                _interrupt(running)
    return status


def _interrupt(running: list[subprocess.Popen[bytes]]) -> None:
    """As Ctrl-C would, behind which they clean up."""
    for each in running:
        each.send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(beside(shlex.split(sys.argv[1]), sys.argv[2:]))
