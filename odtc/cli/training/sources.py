"""The data of a command: read, with what is to be said of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest
    from odtc.runtime_rpc.data.source import Source
    from odtc.runtime_rpc.data.wanted import ReadOptions


@dataclass(frozen=True)
class Trained:
    """Samples that are trained.

    Attributes:
        path: of them.
        source: what was read of it.
    """

    path: Path
    source: "Source"


def read_source(
    path: Path,
    manifest: "Manifest",
    options: "ReadOptions",
    trained: "Trained | None" = None,
) -> "Source":
    """The samples of a file or a folder; see `read_data` for what these may be.

    Args:
        path: of it.
        manifest: of the step.
        options: how they are read.
        trained: what is trained, where these samples are measured.

    Raises:
        DataError: they cannot be read, or do not fit the step, number classes in another
            way than those that are trained, or lack a column of these.
        UnsupportedError: they are text, and the step is none of a language model.
        UsageError: they are text, and there is no tokenizer.
    """
    # Imported here: samples bring numpy.
    from odtc.runtime_rpc.data.readers import read_data
    from odtc.runtime_rpc.data.same import notes_beside
    from odtc.runtime_rpc.data.source import notes_of

    names = trained.source.class_names if trained else ()
    columns = trained.source.column_names if trained else {}
    source = read_data(path, manifest, options, names, columns)
    said = notes_beside(trained.source, source, (trained.path, path)) if trained else ()
    for note in (*notes_of(source, options, is_trained=trained is None), *said):
        say(f"note: {note}")
    return source
