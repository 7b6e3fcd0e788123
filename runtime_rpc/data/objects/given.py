"""What a caller of `Trainer.fit` gives for data: files, arrays, datasets, loaders.

One table, the first line of which that takes the data reads it.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError, UsageError
from odtc.core.options.kinds import shown
from odtc.core.specs import Role
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.objects.indexed import class_names_in, indexed, is_indexed
from odtc.runtime_rpc.data.objects.listed import are_rows, are_token_rows
from odtc.runtime_rpc.data.objects.tabular import as_frame
from odtc.runtime_rpc.data.readers import noted, read_data
from odtc.runtime_rpc.data.samples import Samples, keys_of, samples_in
from odtc.runtime_rpc.data.source import Batch, Source
from odtc.runtime_rpc.data.tables.frames import by_names, framed, is_table, note_of_rows
from odtc.runtime_rpc.data.tables.reading import read_frame
from odtc.runtime_rpc.data.text.reading import is_document, rows_of_documents
from odtc.runtime_rpc.data.wanted import ReadOptions, Wanted, wanted_by
from odtc.runtime_rpc.feed.arrays import as_array, is_frame
from odtc.runtime_rpc.feed.batches import named_arrays
from odtc.runtime_rpc.lengths.joining import Joining


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    Attributes:
        takes: whether something is of it, with what it is read for.
        read: makes a source of it.
    """

    takes: Callable[[Any, "Reading"], bool]
    read: Callable[[Any, "Reading"], Source]


@dataclass(frozen=True)
class Reading:
    """What data is read for.

    Attributes:
        manifest: of the step.
        options: how it is read.
        class_names: by their numbers, where other samples have them already.
        columns: names of the columns of each input, where other samples have them already.
    """

    manifest: Manifest
    options: ReadOptions
    class_names: Sequence[str]
    columns: Mapping[str, Sequence[str]]

    @property
    def wanted(self) -> Wanted:
        """The same, for what knows no step."""
        return wanted_by(self.manifest, self.options, self.class_names, self.columns)


def source_of(
    data: Any,
    manifest: Manifest,
    options: ReadOptions,
    what: str = "data",
    class_names: Sequence[str] = (),
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Source | None:
    """The source of what a caller gives; None of what can only be gone through.

    Args:
        data: any.
        manifest: of the step.
        options: how it is read.
        what: it is called in messages.
        class_names: by their numbers, where other samples have them already.
        columns: names of the columns of each input, where other samples have them already.

    Raises:
        DataError: it cannot be read, or does not fit the step.
        UsageError: it is nothing of which there are samples.
    """
    refuse_splits(data)
    reading = Reading(manifest, options, class_names, columns)
    data, dataset = as_frame(framed(data), reading.wanted), data
    for kind in KINDS:
        if kind.takes(data, reading):
            found = kind.read(data, reading)
            return found if data is dataset else _named_as(dataset, found, manifest)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | np.ndarray):
        return None
    is_module = hasattr(data, "train_dataloader")  # of Lightning
    raise UsageError(
        f"the {what} is {shown(data)}, which has no samples with labels",
        where=what,
        hint="give its loaders: fit(it.train_dataloader(), validation=it.val_dataloader())"
        if is_module
        else "give a file, a pair of arrays (x, y), a Dataset (which has __len__) or a DataLoader, "
        "or what gives pairs (x, y) of batches",
    )


def _named_as(dataset: Any, found: Source, manifest: Manifest) -> Source:
    """The samples of a table, with the names of classes that a dataset has for their numbers."""
    names = class_names_in(dataset, manifest.labels)
    if not isinstance(found, Samples) or found.class_names or not names:
        return found
    return replace(found, class_names=names)


def held_source(
    manifest: Manifest,
    batches: Iterable[Batch],
    joining: Joining,
    own: tuple[str, ...],
    known: tuple[str, ...],
) -> Samples:
    """The samples of one pass, in memory.

    Args:
        manifest: of the step.
        batches: of the pass.
        joining: makes one of them.
        own: names of classes that go with them; none where nothing says these.
        known: names of classes where they are trained.

    Raises:
        DataError: there are none, or they do not fit the step.
    """
    held = [{**x, **y} for x, y in batches]
    if not held:
        raise DataError(
            "the validation data yields no batches",
            where="validation",
            hint="give at least one batch, or leave validation out; a generator yields its batches "
            "only once",
        )
    arrays = joining(held)
    found = samples_in(arrays, [*arrays], wanted_by(manifest, ReadOptions(), own or known), "data")
    return replace(found, class_names=own or found.class_names)


def seed_loader(data: Any, seed: int, number: int) -> None:
    """Sets the order of a pass of PyTorch's DataLoader: that of a run that is taken up, too.

    A loader without a generator of its own draws from PyTorch's.
    """
    if "torch" not in sys.modules or not hasattr(data, "batch_sampler"):
        return
    import torch

    own = [getattr(each, "generator", None) for each in (data, getattr(data, "sampler", None))]
    for generator in [each for each in own if each is not None] or [torch.default_generator]:
        generator.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))


def is_pair(data: Any, _: Any = None) -> bool:
    """Whether it is inputs and labels, each an array or arrays by name: no list of batches."""
    if not isinstance(data, tuple) or len(data) != 2 or not _is_arrays(data[0]):
        return False
    return _is_arrays(data[1]) or (data[0] is not None and _is_column(data[1]))


def _is_column(value: Any) -> bool:
    """Whether it is a list with a number or a name of each sample; None where one is missing."""
    return isinstance(value, list) and all(isinstance(e, int | float | str | None) for e in value)


def _is_arrays(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_arrays, value.values()))
    return value is None or hasattr(value, "dtype") or is_frame(value) or is_table(value)


def _of_pair(data: tuple[Any, Any], reading: Reading) -> Samples:
    manifest = reading.manifest
    inputs, labels = manifest.of_role(Role.INPUT), manifest.labels
    fed = [item.spec.name for item in inputs]
    taken = by_names(data[0], inputs, reading.wanted.columns)
    x = _named(taken.feed, fed, "input", [*manifest.bound])
    y = _named({} if data[1] is None else data[1], [i.spec.name for i in labels], "label")
    found = samples_in(x | y, [*x, *y], reading.wanted, "data")
    notes = (*taken.notes, *note_of_rows(*data), *found.notes)
    return replace(found, column_names=taken.columns, notes=notes)


def _named(
    given: Any, names: list[str], what: str, bound: Iterable[str] = ()
) -> dict[str, np.ndarray]:
    found = named_arrays(given, names, what, [*bound])
    return {name: as_array(array, what) for name, array in found.items()}


def _of_mapping(data: Mapping[str, Any], reading: Reading) -> Samples:
    wanted = reading.wanted
    keys = keys_of(wanted.inputs, wanted.read_labels, data)
    arrays = {name: as_array(data[name], f"data {name}") for name in data if name in keys}
    found = samples_in(arrays, [*map(str, data)], wanted, "data")
    return noted(found, wanted, [*reading.manifest.bound])


def _are_splits(data: Any) -> bool:
    """Whether it is several datasets by name, as `datasets.load_dataset` gives them."""
    values = [*data.values()] if isinstance(data, Mapping) else []
    return bool(values) and all(hasattr(each, "column_names") for each in values)


def refuse_splits(data: Any) -> None:
    """Refuses several datasets by name.

    Raises:
        UsageError: it is that.
    """
    if not _are_splits(data):
        return
    raise UsageError(
        f"the data is a {type(data).__name__} of several datasets, {listed([*data])}",
        where="data",
        hint=f"give one of them, such as data[{next(iter(data))!r}]",
    )


def _of_path(data: str | os.PathLike[str], reading: Reading) -> Source:
    path = Path(os.fspath(data))
    return read_data(path, reading.manifest, reading.options, reading.class_names, reading.columns)


def _of_frame(data: Any, reading: Reading) -> Samples:
    return noted(read_frame(data, reading.wanted), reading.wanted, [*reading.manifest.bound])


def are_documents(data: Any, options: ReadOptions) -> bool:
    """Whether they are texts, or mappings with text; of a Dataset only where text is asked for.

    A Dataset of Hugging Face may have its text still, beside what was made of it.
    """
    may_be = isinstance(data, list | tuple) or (options.tokenizer and is_indexed(data))
    return bool(may_be) and len(data) > 0 and is_document(data[0])


KINDS: tuple[Kind, ...] = (
    Kind(lambda data, _: isinstance(data, Source), lambda data, _: data),
    Kind(lambda data, _: isinstance(data, str | os.PathLike), _of_path),
    Kind(is_pair, _of_pair),
    Kind(lambda data, _: is_frame(data), _of_frame),
    Kind(lambda data, _: isinstance(data, Mapping), _of_mapping),
    Kind(
        lambda data, reading: are_token_rows(data, reading.wanted),
        lambda data, reading: rows_of_documents(data, reading.wanted),
    ),
    Kind(
        lambda data, reading: are_rows(data, reading.wanted),
        lambda data, reading: indexed(data, reading.manifest),
    ),
    Kind(
        lambda data, reading: are_documents(data, reading.options),
        lambda data, reading: rows_of_documents(data, reading.wanted),
    ),
    Kind(is_indexed, lambda data, reading: indexed(data, reading.manifest)),
)
