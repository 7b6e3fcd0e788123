"""The base of a trainer's adapters: whether it is the one that a file of adapters was trained over.

What of the base is compared is a hash of all weights that no step changes. The artifact has it;
they are read only where somebody has given some of them other values since.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from weakref import WeakMethod

import numpy as np

from odtc.core.artifact.base import BASE, base_of, hash_of
from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ArtifactError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import shown
from odtc.core.specs import Argument, Role

# Which weights they are: a step that trains some of them beside its adapters has others.
_NAMES = "base_names_sha256"
_SHOWN = 16
_OTHER_HINT = (
    "load it with an artifact of the weights that it was trained over, quantised as they were, if "
    "at all; or use only its weights, over these: trainer.export_peft there, and "
    "trainer.load_adapters here"
)
_NOT_SAID = "whether it is this one was not checked"


class Base:
    """The weights of a trainer that no step changes.

    Args:
        manifest: of the step.
        read: a trainer's method that reads an argument, as it has it now. It is held weakly: the
            trainer has this, and goes when it is dropped.
    """

    def __init__(
        self, manifest: Manifest, read: Callable[[Argument], Mapping[str, np.ndarray]]
    ) -> None:
        self._frozen, self._read = manifest.of_role(Role.FROZEN), WeakMethod(read)
        self._hash = manifest.base

    def changed(self, now: str = "") -> None:
        """Says that frozen weights were written, and their hash where it is known."""
        self._hash = now

    @property
    def hash(self) -> str:
        """The hash of them as they are; empty where there are none."""
        if not self._hash:
            read = self._read()
            assert read, "the trainer is gone"
            self._hash = base_of(
                {item.spec.name: hash_of(read(item)[item.spec.name]) for item in self._frozen}
            )
        return self._hash

    def said(self) -> dict[str, str]:
        """What files of adapters for other programs say of it."""
        return {BASE: self.hash, _NAMES: self._names} if self._frozen else {}

    def check(self, said: str, path: str | os.PathLike[str]) -> None:
        """Checks that a file without its base was written over this one.

        A warning tells of a file that does not say it.

        Args:
            said: the hash that the file has; empty where it has none.
            path: of the file.

        Raises:
            ArtifactError: it was another one.
        """
        if not self._frozen:
            return
        if not said:
            warn_caller(
                f"{os.fspath(path)}: the file is of an older odtc, and does not say over which "
                f"base the adapter was trained: {_NOT_SAID}"
            )
        elif said != self.hash:
            raise ArtifactError(
                f"the adapter was trained over another base: its hash is {said[:_SHOWN]}; "
                f"the frozen weights here have the hash {self.hash[:_SHOWN]}",
                where=os.fspath(path),
                hint=_OTHER_HINT,
            )

    def check_exported(self, metadata: Mapping[str, str], path: str | os.PathLike[str]) -> None:
        """The same of a file of `export_adapters`, or one that another program wrote.

        Raises:
            ArtifactError: it was another one of the same weights.
        """
        if note := self._note(metadata, ""):
            warn_caller(f"{os.fspath(path)}: {note}")
        elif self._frozen:
            self.check(metadata[BASE], path)

    def tell_of_folder(
        self, metadata: Mapping[str, str], named: object, path: str | os.PathLike[str]
    ) -> None:
        """Warns of a folder of PEFT whose adapters are of another base, or do not say of which.

        Nothing is refused: a folder is what takes adapters from one base to another.

        Args:
            metadata: of its tensors.
            named: what its configuration says of the base; None where that is nothing.
            path: of the folder.
        """
        names = f", but for its name, {shown(named)}" if named else ""
        note = self._note(metadata, names)
        if not note and self._frozen and metadata[BASE] != self.hash:
            note = (
                f"the adapters were trained over another base: its hash is "
                f"{metadata[BASE][:_SHOWN]}; the frozen weights here have the hash "
                f"{self.hash[:_SHOWN]}"
            )
        if note:
            warn_caller(f"{os.fspath(path)}: {note}")

    def _note(self, metadata: Mapping[str, str], names: str) -> str:
        """Why it cannot be known whether the base is this one; empty where it can."""
        if not self._frozen:
            return ""
        if BASE not in metadata:
            return f"nothing says over which base the adapters were trained{names}: {_NOT_SAID}"
        if metadata.get(_NAMES) != self._names:
            return (
                "the adapters were trained over a base of other weights, such as quantised in "
                "another way or not at all, or where others are trained in addition to them: "
                f"{_NOT_SAID}"
            )
        return ""

    @property
    def _names(self) -> str:
        names = sorted(item.spec.name for item in self._frozen)
        return hashlib.sha256("\n".join(names).encode()).hexdigest()
