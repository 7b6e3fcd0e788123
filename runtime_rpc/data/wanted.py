"""What the samples of a file are read for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # It brings numpy, and the command line's options are built without that.
    from odtc.core.artifact.manifest import Manifest
    from odtc.core.specs import Argument


@dataclass(frozen=True)
class Text:
    """How text becomes rows of tokens, for a language model.

    Attributes:
        tokenizer: the `tokenizer.json`; None where the data has tokens.
        end_token: the token that ends a document; None for none.
        pack: whether rows hold several documents.
    """

    tokenizer: Path | None = None
    end_token: str | None = None
    pack: bool = False


@dataclass(frozen=True)
class Wanted:
    """What a step takes of a file.

    Attributes:
        inputs: of the step.
        labels: of the step.
        text: how its text is read.
        class_names: by their numbers, where other samples have them already; none otherwise.
    """

    inputs: "Sequence[Argument]"
    labels: "Sequence[Argument]"
    text: Text = Text()
    class_names: Sequence[str] = ()


def wanted_by(manifest: "Manifest", text: Text, class_names: Sequence[str] = ()) -> Wanted:
    """What a step takes of a file, or of what a caller gives."""
    from odtc.core.specs import Role

    return Wanted(manifest.of_role(Role.INPUT), manifest.labels, text, class_names)
