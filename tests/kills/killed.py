"""Checks that kills of all commands share: what may be left, and what after the next start.

A signal that asks for an end is met: the command says so by its exit code, and leaves nothing. What
SIGKILL leaves, the next start removes. No process that a command started outlives it for long.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from odtc.cli.interrupts import ENDS
from odtc.core.disk import left_behind
from odtc.core.disk.files import check_writable
from odtc.core.disk.left_behind import temporary_folder
from tests.kills.fork_server import ForkServer, has_ended

# In which what a killed command has started ends, on a machine that is busy.
ALONE_SECONDS = 10.0
# In which a command comes to its end.
_END_SECONDS = 300.0
POLL_SECONDS = 0.002
# What is waited for is looked at more seldom the longer that takes: a look may ask a tracker and a
# device, and reads all of /proc or a checkpoint. It is seen later by this part at most.
_LATER, _LONGEST_POLL = 0.02, 0.05


def processes_of(temporary: Path) -> list[int]:
    """All that live and have the same folder for temporary files."""
    mark, found = f"TMPDIR={temporary}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_ours = mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if is_ours and not has_ended(int(entry.name)):
                found.append(int(entry.name))
    return found


class Place:
    """Folders of commands, and the server that starts them.

    Args:
        folder: for all of it; it exists.
        module: whose `main` runs the commands.
        imports: that they need.
        cache: of theirs; the user's by default.
    """

    def __init__(self, folder: Path, module: str, *imports: str, cache: Path | None = None) -> None:
        self.folder, self.temporary = folder / "work", folder / "tmp"
        for each in (self.folder, self.temporary):
            each.mkdir()
        environment = {"XDG_CACHE_HOME": str(cache)} if cache else {}
        self.server = ForkServer(self.folder, self.temporary, module, imports, environment)

    def processes(self) -> list[int]:
        """All that were started here and live."""
        return [pid for pid in processes_of(self.temporary) if pid != self.server.pid]

    def left(self, *kept: str) -> list[Path]:
        """Returns files that lie here, except those of these names."""
        inside = [path for path in self.folder.iterdir() if path.name not in kept]
        return [*inside, *self.temporary.iterdir()]


class Killed:
    """A command that is killed again and again.

    Attributes:
        name: of the kind, in the table.
        place: where it runs.
        counts: of what happened.
        longest: seconds of what was waited for.
    """

    name: ClassVar[str]
    # The file that the command writes, and others that belong there.
    output: ClassVar[str]
    others: ClassVar[tuple[str, ...]] = ()

    def __init__(self, place: Place) -> None:
        self.place = place
        self.counts: Counter[str] = Counter()
        self.longest: dict[str, float] = {}

    def finish(self) -> None:
        """Lets the command come to its end, and looks whether all is there then."""
        raise NotImplementedError

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Kills the command once, and looks at what is there then."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends all that still runs."""
        self.place.server.close()

    @property
    def path(self) -> Path:
        """The file that the command writes."""
        return self.place.folder / self.output

    @property
    def said(self) -> str:
        """The output of the command so far."""
        return self.place.server.log.read_text()

    def ended(self, number: signal.Signals) -> int:
        """Waits for the end of a command that had a signal, and for its children's.

        Returns:
            Its exit code.
        """
        code = self.place.server.wait()
        self.waited("alone", lambda: not self.place.processes(), ALONE_SECONDS)
        if code == -number:
            # By SIGKILL, or before anything of odtc had the signal.
            self.counts["left something"] += bool(self.left())
            self.next_start()
        else:
            # Without a signal's code it was at its end before.
            expected = (0, ENDS[number][0] if number in ENDS else 0)
            assert code in expected, f"{code} behind {number.name}: {self.said}"
        self.counts["came too late"] += code == 0
        self.assert_nothing_left()
        return code

    def until_end(self, pid: int) -> int:
        """Waits for the end of a command; its exit code."""
        self.waited("", lambda: has_ended(pid), _END_SECONDS)
        return self.place.server.wait()

    def waited(self, what: str, is_so: Callable[[], bool], seconds: float) -> None:
        """Waits until something is so, and keeps in mind how long that took."""
        began = time.monotonic()
        while not is_so():
            took = time.monotonic() - began
            assert took < seconds, f"not {what}: {self.alive()}: {self.said}"
            time.sleep(min(max(POLL_SECONDS, _LATER * took), _LONGEST_POLL))
        if what:
            took = time.monotonic() - began
            self.longest[what] = max(self.longest.get(what, 0.0), took)

    def alive(self) -> list[str]:
        """The command lines of all that were started here and live."""
        found = []
        for pid in self.place.processes():
            with suppress(OSError):
                text = Path(f"/proc/{pid}/cmdline").read_text()
                found.append(text.replace("\0", " "))
        return found

    def sleep(self, seconds: float) -> None:
        """Lets a command run for a while."""
        time.sleep(seconds)

    def next_start(self) -> None:
        """Does what every command that has an output or unpacks an artifact does at its start."""
        left_behind._remove_folders.cache_clear()
        left_behind._remove_files.cache_clear()
        check_writable(self.path)
        with temporary_folder(self.place.temporary):
            pass

    def left(self) -> list[Path]:
        """Returns files in the folders that do not belong there."""
        return self.place.left(self.output, *self.others)

    def assert_nothing_left(self) -> None:
        """Looks for what does not belong there."""
        assert not self.left(), f"{self.left()}: {self.said}"
