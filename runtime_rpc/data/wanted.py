"""What the samples of a file are read for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # It brings numpy, and the command line's options are built without that.
    from odtc.core.artifact.manifest import Manifest
    from odtc.core.specs import Argument
    from odtc.runtime_rpc.lengths.rows import Rows


@dataclass(frozen=True)
class ReadOptions:
    """How files are read, where there are several ways.

    Attributes:
        tokenizer: the `tokenizer.json` of text for a language model; None where there are tokens.
        end_token: the token that ends a document; None for none.
        pack: whether rows hold several documents.
        skip_broken: whether images that cannot be read are left out; they are an error otherwise.
    """

    tokenizer: Path | None = None
    end_token: str | None = None
    pack: bool = False
    skip_broken: bool = False

    @property
    def of_text(self) -> bool:
        """Whether something is said of text."""
        return bool(self.tokenizer or self.end_token or self.pack)


@dataclass(frozen=True)
class Wanted:
    """What a step takes of a file.

    Attributes:
        inputs: of the step.
        labels: of the step.
        options: how it is read.
        class_names: by their numbers, where other samples have them already; none otherwise.
        inputs_alone: whether no label is read; what a file has of them is left out.
        columns: names of the columns of each input as they were in training; none where nobody
            knows them.
        rows: of a step of several lengths.
    """

    inputs: "Sequence[Argument]"
    labels: "Sequence[Argument]"
    options: ReadOptions = ReadOptions()
    class_names: Sequence[str] = ()
    inputs_alone: bool = False
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: "Rows | None" = None

    @property
    def read_labels(self) -> "Sequence[Argument]":
        """The labels that are read."""
        return () if self.inputs_alone else self.labels


def wanted_by(
    manifest: "Manifest",
    options: ReadOptions,
    class_names: Sequence[str] = (),
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Wanted:
    """What a step takes of a file, or of what a caller gives.

    Args:
        manifest: of the step.
        options: how it is read.
        class_names: by their numbers, where other samples have them already.
        columns: names of the columns of each input, where other samples have them already; else
            they are those that the step normalises, if it does.
    """
    from odtc.core.specs import Role
    from odtc.runtime_rpc.lengths.rows import Rows

    return Wanted(
        manifest.of_role(Role.INPUT),
        manifest.labels,
        options,
        class_names,
        columns=columns or manifest.columns,
        rows=Rows(manifest) if manifest.shorter else None,
    )
