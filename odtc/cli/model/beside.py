"""What `odtc inspect` says of files with weights that an artifact does not hold."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from odtc.core.artifact.beside import check_file, files_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.errors import ArtifactError


@dataclass(frozen=True)
class File:
    """A file that an artifact needs beside it.

    Attributes:
        name: its path from their folder.
        bytes: of it that are weights.
        folder: where it was looked for.
        fault: why no trainer can be made with it; empty where one can.
    """

    name: str
    bytes: int
    folder: str
    fault: str


def states(bundle: Bundle) -> list[File]:
    """The files that an artifact needs beside it, all of whose weights are compared."""
    folder = str(bundle.folder)
    return [File(name, n, folder, _fault(bundle, name)) for name, n in files_beside(bundle).items()]


def describe(files: Sequence[File]) -> dict[str, Any]:
    """The files as data, for `--json`; nothing where there are none, as after a compile."""
    return {"weights_beside": [asdict(each) for each in files]} if files else {}


def rows(files: Sequence[File]) -> list[tuple[str, str]]:
    """A line for each file."""
    return [("weights beside", f"{_said(each)}: {each.fault or 'as compiled'}") for each in files]


def _said(file: File) -> str:
    return f"{file.name} in {file.folder}, {file.bytes:,} bytes of it"


def _fault(bundle: Bundle, name: str) -> str:
    try:
        check_file(bundle, name)
    except ArtifactError as error:
        return error.what
    return ""
