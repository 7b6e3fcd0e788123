"""Every error that a user can cause, and the exit code of each kind.

An error says what is wrong, where (node, file or key), and what to do about it. The command line
prints it without a traceback and exits with the code of its kind; the Python API raises it.
"""

from enum import IntEnum
from typing import ClassVar

from odtc.core.printable import printable

LONGEST_LINE = 1000


class ExitCode(IntEnum):
    """Exit status of the `odtc` command, by kind of failure."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    MODEL = 3
    UNSUPPORTED = 4
    DATA = 5
    NUMERIC = 6
    OUTPUT = 7
    ARTIFACT = 8
    DEVICE = 9
    BUILD = 10
    BUDGET = 11
    DEVICE_LOST = 12
    DEVICE_BUSY = 13
    PARITY = 14
    MISSING = 15
    HUNG_UP = 129
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


class OdtcError(Exception):
    """Base of all errors that a user can cause.

    Args:
        what: what is wrong, with the value that was met and the bound it broke.
        where: the node, file, key or device that it is about.
        hint: what to do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {printable(self.where)}")
        if self.hint:
            # One line: the names that it lists are the file's.
            lines.append(f"  hint: {printable(self.hint)}")
        return "\n".join(map(_readable, "\n".join(lines).split("\n")))


def _readable(line: str) -> str:
    """A line that a person can read: a file's names may be very long, or steer the terminal."""
    shown = printable(line)
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}..."


def error_kinds(kind: type[OdtcError] = OdtcError) -> list[type[OdtcError]]:
    """All kinds of errors, those of a kind after it."""
    return [each for sub in kind.__subclasses__() for each in (sub, *error_kinds(sub))]


class UsageError(OdtcError):
    """An option or argument has a value that odtc does not know."""

    exit_code = ExitCode.USAGE


class ModelError(OdtcError):
    """The file is not a valid ONNX model, or it does not fit what was asked of it."""

    exit_code = ExitCode.MODEL


class UnsupportedError(OdtcError):
    """The model is valid, but odtc cannot train or run part of it."""

    exit_code = ExitCode.UNSUPPORTED


class MissingPackageError(OdtcError):
    """A Python package that this needs is not installed."""

    exit_code = ExitCode.MISSING


class DataError(OdtcError):
    """Data does not fit: a batch's shape, dtype or label, or a table of buffers."""

    exit_code = ExitCode.DATA


class NumericError(OdtcError):
    """The loss, a weight or the optimizer's state became NaN or infinite."""

    exit_code = ExitCode.NUMERIC


class OutputError(OdtcError):
    """A file could not be written."""

    exit_code = ExitCode.OUTPUT


class ArtifactError(OdtcError):
    """An artifact or checkpoint is damaged, of another version, or for another model."""

    exit_code = ExitCode.ARTIFACT


class DeviceError(OdtcError):
    """A device cannot be reached, or failed while it ran."""

    exit_code = ExitCode.DEVICE


class DeviceLostError(DeviceError):
    """A device went away or stopped answering in the middle of its work; it may come back."""

    exit_code = ExitCode.DEVICE_LOST


class DeviceBusyError(DeviceError):
    """Another client is using the device."""

    exit_code = ExitCode.DEVICE_BUSY


class BuildError(OdtcError):
    """The compiler or linker that odtc needs is missing, or produced an unusable library."""

    exit_code = ExitCode.BUILD


class BudgetError(OdtcError):
    """A memory budget cannot be met.

    Args:
        what: what is wrong.
        where: what needs the most bytes.
        hint: what to do about it.
        least: bytes that would do; 0 where they are not known.
    """

    exit_code = ExitCode.BUDGET

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, least: int = 0
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.least = least


class ParityError(OdtcError):
    """Another library, asked to compute the same, has other losses or outputs than odtc."""

    exit_code = ExitCode.PARITY
