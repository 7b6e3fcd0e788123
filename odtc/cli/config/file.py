"""The options file: where it is found, and how it is read.

It is `odtc.toml`, or `pyproject.toml` with a table `[tool.odtc]`, in the working folder or the
nearest folder above that has one. Nothing in it is run.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odtc.core.disk.file_limits import MOST_CONFIG_BYTES, MOST_PROJECT_BYTES
from odtc.core.errors import UsageError

NAME = "odtc.toml"
PROJECT = "pyproject.toml"
WITHOUT = "--no-config leaves the file out"


@dataclass(frozen=True)
class ConfigFile:
    """An options file.

    Attributes:
        path: of it.
        text: all of it.
        table: what it says of odtc.
        root: the tables around that: those of `[tool.odtc]`.
    """

    path: Path
    text: str
    table: Mapping[str, Any]
    root: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path as it is from the working folder."""
        return from_here(self.path)


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        file: of options; None where there is none.
        notes: of files that it passed over.
    """

    file: ConfigFile | None
    notes: tuple[str, ...] = ()


def from_here(path: Path) -> str:
    """A path from the working folder, where it is in that or in one around it."""
    here, folder = Path.cwd(), path.parent.absolute()
    is_near = here.is_relative_to(folder) or folder.is_relative_to(here)
    return os.path.relpath(path) if is_near else str(path.absolute())


def find_here() -> Found:
    """The file of the working folder, or of the nearest one above it; see `find`."""
    try:
        return find(Path.cwd())
    except FileNotFoundError:  # somebody has removed the folder
        return Found(None)


def find(start: Path) -> Found:
    """The file of a folder, or of the nearest one above it.

    Raises:
        UsageError: it is too large, or no TOML.
    """
    notes = []
    for path in _candidates(start):
        if not _is_ours(path):
            notes.append(f"{path} belongs to another user and is not read; --config reads it")
            continue
        file = read(path)
        if file is None:
            continue
        beside = path.with_name(PROJECT)
        if path.name == NAME and beside.is_file() and _is_ours(beside) and read(beside):
            notes.append(f"[tool.odtc] of {beside} is not read: {NAME} is next to it")
        return Found(file, tuple(notes))
    return Found(None, tuple(notes))


def _candidates(start: Path) -> Iterator[Path]:
    for folder in (start, *start.parents):
        for name in (NAME, PROJECT):
            # Not of pathlib, which raises where a folder may not be looked into.
            if os.path.isfile(folder / name):
                yield folder / name


def _is_ours(path: Path) -> bool:
    """Whether nobody else can have written the file: in a shared folder anybody may put one."""
    if not hasattr(os, "getuid"):
        # Windows has no such numbers and bits: a user's folders are the user's own.
        return True
    found = path.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & stat.S_IWOTH


def read(path: Path) -> ConfigFile | None:
    """The options of a file; None for a `pyproject.toml` that has none.

    Raises:
        UsageError: it cannot be read, is too large, or is no TOML.
    """
    is_project = path.name == PROJECT
    most = MOST_PROJECT_BYTES if is_project else MOST_CONFIG_BYTES
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read the options: {error.strerror or error}",
            where=str(path),
            hint="give --config the path of a file like odtc.toml",
        ) from error
    if is_project and b"odtc" not in content:
        return None
    if len(content) > most:
        raise UsageError(
            f"the file has more than {most:,} bytes; no more are read of options",
            where=str(path),
            hint=WITHOUT,
        )
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> ConfigFile | None:
    """The options in the content of a file; see `read`.

    Raises:
        UsageError: it is no TOML.
    """
    text, table = _tables(content, path)
    if path.name != PROJECT:
        return ConfigFile(path, text, table)
    tool = table.get("tool", {})
    if not isinstance(tool, dict) or "odtc" not in tool:
        return None
    own = tool["odtc"]
    if not isinstance(own, dict):
        raise UsageError("[tool.odtc] is not a table", where=str(path), hint=WITHOUT)
    return ConfigFile(path, text, own, ("tool", "odtc"))


def _tables(content: bytes, path: Path) -> tuple[str, dict[str, Any]]:
    """The text, and the tables in it.

    Raises:
        UsageError: it is no TOML.
    """
    # Imported here: most folders have no such file.
    import tomllib

    try:
        text = content.decode("utf-8-sig")
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        what = f"it is not UTF-8 at byte {error.start}"
    except tomllib.TOMLDecodeError as error:
        what = str(error)
    except RecursionError:
        what = "it is nested too deeply"
    raise UsageError(f"cannot read the options: {what}", where=str(path), hint=WITHOUT)
