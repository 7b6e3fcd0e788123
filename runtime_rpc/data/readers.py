"""Files of samples: one table, the first line of which that takes a path reads it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from odtc.core.artifact.manifest import Manifest
from odtc.runtime_rpc.data.arrays import read_folder_of_arrays, read_npz, read_tensors
from odtc.runtime_rpc.data.foreign import is_elsewhere, is_foreign, refuse, refuse_elsewhere
from odtc.runtime_rpc.data.images.reading import read_images
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.samples import Samples
from odtc.runtime_rpc.data.source import Source
from odtc.runtime_rpc.data.tables.columns import feature_columns
from odtc.runtime_rpc.data.tables.csv_files import CSV_ENDINGS
from odtc.runtime_rpc.data.tables.reading import read_csv, read_parquet
from odtc.runtime_rpc.data.text.reading import read_json_lines
from odtc.runtime_rpc.data.wanted import ReadOptions, Wanted, wanted_by


@dataclass(frozen=True)
class Reader:
    """A kind of files.

    Attributes:
        what: it is.
        takes: whether a path is of the kind.
        read: its samples.
    """

    what: str
    takes: Callable[[Path], bool]
    read: Callable[[Path, Wanted], Source]


def _ends(*endings: str) -> Callable[[Path], bool]:
    return lambda path: path.name.lower().endswith(endings) and not path.is_dir()


READERS: tuple[Reader, ...] = (
    Reader("what is elsewhere", is_elsewhere, refuse_elsewhere),
    Reader(
        "a folder of .npy files",
        lambda path: path.is_dir() and any(path.glob("*.npy")),
        read_folder_of_arrays,
    ),
    Reader("a folder with a folder of images for each class", Path.is_dir, read_images),
    Reader("a safetensors file", _ends(".safetensors"), read_tensors),
    Reader("a CSV file", _ends(*CSV_ENDINGS), read_csv),
    Reader("a Parquet file", _ends(".parquet"), read_parquet),
    Reader("JSON lines of text or tokens", _ends(".jsonl", ".ndjson"), read_json_lines),
    Reader("a file that is not read", is_foreign, refuse),
    Reader("an .npz file", lambda _: True, read_npz),
)


def read_data(
    path: Path,
    manifest: Manifest,
    options: ReadOptions | None = None,
    class_names: Sequence[str] = (),
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Source:
    """The samples of a file or a folder, with their labels.

    A note names arrays and columns that the step does not take: a file may serve several models.

    Args:
        path: of it.
        manifest: of the step.
        options: how it is read, where there are several ways.
        class_names: by their numbers, where other samples have them already.
        columns: names of the columns of each input, where other samples have them already: those
            of a table are taken by them. Else they are those that the step normalises, if it does.

    Raises:
        DataError: there is none, it cannot be read, or it does not fit the step.
        MissingPackageError: what reads it is not installed.
        UnsupportedError: it has text or tokens, and the step is none of a language model.
        UsageError: it has text, and there is no tokenizer.
    """
    wanted = wanted_by(manifest, options or ReadOptions(), class_names, columns)
    return _read(path, manifest, wanted)


def read_inputs(
    path: Path,
    manifest: Manifest,
    options: ReadOptions | None = None,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Source:
    """The samples of a file or a folder without their labels, which need not be there.

    A folder of images may have them in any folders, or in none.

    Args:
        path: of it.
        manifest: of the step.
        options: how it is read, where there are several ways.
        columns: names of the columns of each input as they were in training, by which those of a
            table are chosen; none where nobody knows them: they go by their places.

    Raises:
        DataError: as of `read_data`; a column of the training is missing.
        MissingPackageError: as of `read_data`.
        UnsupportedError: as of `read_data`.
        UsageError: as of `read_data`.
    """
    wanted = wanted_by(manifest, options or ReadOptions(), columns=columns)
    return _read(path, manifest, replace(wanted, inputs_alone=True))


def _read(path: Path, manifest: Manifest, wanted: Wanted) -> Source:
    reader = next(each for each in READERS if each.takes(path))
    source = reader.read(path, wanted)
    return noted(source, wanted, [*manifest.bound]) if isinstance(source, Samples) else source


def noted(source: Samples, wanted: Wanted, bound: Collection[str]) -> Samples:
    """The samples, with a note of what was not read.

    Args:
        source: of a file or a table.
        wanted: what the step takes of it.
        bound: inputs whose values are constants of the step, which may be there.
    """
    unknown = [name for name in source.others if name not in bound]
    if wanted.inputs_alone:
        # Nobody misses labels there.
        unknown = feature_columns(unknown, [item.spec.name for item in wanted.labels])
    if not unknown:
        return source
    what = "not inputs" if wanted.inputs_alone else "neither inputs nor labels"
    note = (
        f"{source.where}: not read, as they are {what}: {listed(unknown)}; the "
        f"step takes {listed((*source.inputs, *source.labels))}"
    )
    return replace(source, notes=(*source.notes, note))
