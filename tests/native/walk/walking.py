"""A walk: calls that are drawn, each made on all sides, whose results have to be the same."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import odtc
from tests.native.same_bits.subject import Subject
from tests.native.walk.sides import Side, result_of, sides_of


class Walk:
    """Three trainers of an artifact, and what was done with them.

    Args:
        artifact: of the walk.
        subject: whose data it is fed.
        folder: a new one, for files.
        rng: that draws each call.
        begun: a checkpoint to go on from, perhaps of another artifact of the same training.
    """

    def __init__(
        self,
        artifact: odtc.Artifact,
        subject: Subject,
        folder: Path,
        rng: Random,
        begun: Path | None = None,
    ) -> None:
        folder.mkdir()
        self.manifest, self.rng, self.folder = artifact.manifest, rng, folder
        self.data, self.lr = subject.batches(6), subject.model.lr
        self.sides = sides_of(artifact, folder, offload_state=rng.random() < 0.3)
        self.said: list[str] = []
        self.checkpoints: list[Path] = []
        if begun is not None:
            self.say("load of another artifact")
            self.on_all(lambda side: side.load(begun))
            self.compare()
        self.save()

    def say(self, what: str) -> None:
        """Notes a call before it is made."""
        self.said.append(what)

    def on_all(self, call: Callable[[Side], Any], sides: Sequence[Side] = ()) -> Any:
        """What a call returns on all sides.

        Raises:
            AssertionError: not the same.
        """
        found = {each.name: result_of(lambda each=each: call(each)) for each in sides or self.sides}
        first, *others = found.values()
        assert all(each == first for each in others), short(found)
        return first

    def compare(self) -> None:
        """Compares the numbers of steps and all tensors.

        Raises:
            AssertionError: they differ.
        """
        self.on_all(lambda side: side.steps)
        wanted, *others = [each.tensors() for each in self.sides]
        for each, found in zip(self.sides[1:], others, strict=True):
            differ = [name for name, value in wanted.items() if found[name] != value]
            assert not differ, f"{each.name}: {differ}"

    def save(self) -> bool:
        """Writes a checkpoint of each side: the same bytes. One of them is kept, if it was written.

        Raises:
            AssertionError: they are not the same.
        """
        self.say("save")
        places = {each.name: self.folder / f"{len(self.said)} {each.name}" for each in self.sides}

        def written(side: Side) -> bytes:
            side.save(places[side.name])
            return places[side.name].read_bytes()

        is_written = isinstance(self.on_all(written), bytes)
        if is_written:
            self.checkpoints.append(places[self.rng.choice(list(places))])
        return is_written

    def close(self) -> None:
        """Ends all trainers."""
        for each in self.sides:
            each.close()


def short(found: Mapping[str, Any]) -> str:
    """Results for a message: what is long is left out."""
    return ", ".join(f"{name}: {str(each)[:80]}" for name, each in found.items())
