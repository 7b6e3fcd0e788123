"""`odtc train --adapter NAME`: a run of one of the adapters that a checkpoint has.

The others stay in the checkpoint as they are; a name that it does not have is added to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.core.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from odtc.runtime_rpc.trainer import Trainer

# What a trainer calls its adapter where nobody names it.
_DEFAULT = "default"


@dataclass(frozen=True)
class Known:
    """The adapters of a checkpoint.

    Attributes:
        steps: of each, by name; none where there is no checkpoint that could be taken up.
    """

    steps: Mapping[str, int]

    @staticmethod
    def of(path: Path) -> "Known":
        """Those of a file."""
        from odtc.runtime_rpc.state.checkpoint import read_adapter_steps

        try:
            return Known(read_adapter_steps(path))
        except ArtifactError:
            return Known({})

    def is_beside_others(self, name: str | None) -> bool:
        """Whether an adapter of that name is there, and others that a run of it does not touch."""
        return name in self.steps and len(self.steps) > 1

    def check_kept(self, path: Path) -> None:
        """Checks that a run that begins anew, of no adapter by its name, replaces but one.

        Raises:
            UsageError: whoever forgot `--adapter` would lose the others.
        """
        if len(self.steps) > 1:
            names = ", ".join(self.steps)
            raise UsageError(
                f"the checkpoint has the adapters {names}, and this run would replace all of them",
                where=str(path),
                hint="pass --adapter NAME to train one of them, or a new one in addition to them; "
                "give another --checkpoint, or remove it, to begin anew",
            )


def put_to_work(
    trainer: "Trainer",
    name: str,
    path: Path,
    load: Callable[[Path], None],
    *,
    goes_on: bool,
) -> None:
    """Gives a trainer that has taken no step the adapters of a checkpoint, with one at work.

    Args:
        trainer: as it was made.
        name: of the adapter.
        path: of the checkpoint, which may not be there.
        load: loads a checkpoint into the trainer, and says what is warned of it.
        goes_on: whether the adapter has to be there already.

    Raises:
        ArtifactError: the checkpoint is damaged, or of another step.
        UsageError: the name is none.
    """
    known = Known.of(path).steps if path.exists() else {}
    if goes_on or known.keys() - {name}:
        load(path)
        if goes_on:
            trainer.set_adapter(name)
            return
    elif name == _DEFAULT:
        return
    # What begins anew is not at work, so that it can be dropped.
    if name in trainer.adapters:
        other = next(each for each in trainer.adapters if each != name)
        trainer.set_adapter(other)
        trainer.delete_adapter(name)
    trainer.add_adapter(name)
    trainer.set_adapter(name)
    # That of a trainer which has loaded nothing.
    if not known.keys() - {name}:
        trainer.delete_adapter(_DEFAULT)


def check_there(trainer: "Trainer", name: str, path: Path) -> None:
    """Checks that a checkpoint which was loaded has an adapter.

    Raises:
        UsageError: it has not, or the artifact trains none.
    """
    if not trainer.adapters:
        raise UsageError("the artifact trains no adapters", hint="leave --adapter out")
    if name not in trainer.adapters:
        names = ", ".join(trainer.adapters)
        raise UsageError(
            f"there is no adapter {name!r} in the checkpoint; it has {names}",
            where=str(path),
            hint=f"give one of them, such as --adapter {trainer.active_adapter}",
        )


def say_which(trainer: "Trainer") -> None:
    """Says whose weights they are, where a checkpoint has several and nobody chose."""
    if len(trainer.adapters) > 1:
        names = ", ".join(trainer.adapters)
        say(f"note: of the adapters {names} it is {trainer.active_adapter}; --adapter NAME chooses")
