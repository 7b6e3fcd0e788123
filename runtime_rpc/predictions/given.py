"""What a caller of `Trainer.predict` gives: all that `fit` takes, with labels or without.

data ─┬─ file, folder, Dataset, texts ─→ Source ─┐
      ├─ loader, stream, list of batches ────────┴─→ feeds ─→ outputs ─→ one array
      └─ arrays ─→ evaluate, as they are
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Evaluation
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import Role
from odtc.runtime_rpc.data.fitting.looking import look_of_prediction, looked_at
from odtc.runtime_rpc.data.fitting.taking import Taking
from odtc.runtime_rpc.data.names import LABELS
from odtc.runtime_rpc.data.objects.given import are_documents, is_pair, refuse_splits
from odtc.runtime_rpc.data.objects.indexed import indexed, is_indexed
from odtc.runtime_rpc.data.objects.listed import are_rows, are_token_rows
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.data.objects.ragged import predicted_rows
from odtc.runtime_rpc.data.objects.streams import is_stream, streamed
from odtc.runtime_rpc.data.objects.tabular import as_frame
from odtc.runtime_rpc.data.readers import noted, read_inputs
from odtc.runtime_rpc.data.source import Source, notes_of
from odtc.runtime_rpc.data.tables.columns import feature_columns
from odtc.runtime_rpc.data.tables.frames import framed
from odtc.runtime_rpc.data.tables.ordering import Ordering
from odtc.runtime_rpc.data.tables.reading import read_frame
from odtc.runtime_rpc.data.text.reading import rows_of_documents
from odtc.runtime_rpc.data.wanted import ReadOptions, wanted_by
from odtc.runtime_rpc.feed.arrays import as_array, is_frame
from odtc.runtime_rpc.feed.batches import count_samples
from odtc.runtime_rpc.predictions.loaders import note_of_left, note_of_order
from odtc.runtime_rpc.predictions.parts import Predicting, feeds_of, joined, outputs_of

_PAIR = 2


def predicted(
    trainer: Predicting, data: Any, output: str | None, options: ReadOptions, *, ema: bool
) -> np.ndarray:
    """An output of all samples of what a caller gives; see `Trainer.predict`."""
    manifest = trainer.manifest
    data = as_frame(framed(data), wanted_by(manifest, options, columns=trainer._columns))
    known = {each.output.name: each for each in manifest.evaluations}
    evaluation = manifest.evaluations[0] if output is None else known.get(output)
    feeds = None if evaluation is None else _feeds(trainer, data, options, evaluation)
    if feeds is None or evaluation is None:
        # Of an unknown output it says which there are.
        x = _looked_at(_inputs_alone(data, trainer), trainer)
        return trainer._evaluated(x, output, ema=ema)
    name = evaluation.output.name
    found = [each[name] for each in outputs_of(trainer, feeds, [evaluation], ema=ema)]
    return joined(found, evaluation)


def read_samples(
    trainer: Predicting, path: Path, options: ReadOptions, evaluated: Sequence[Evaluation]
) -> Source:
    """The samples of a file or a folder, with the columns that they had in training.

    Args:
        trainer: that evaluates them.
        path: of it.
        options: how it is read.
        evaluated: the outputs that are asked for; inputs that none depends on, such as labels of a
            loss in the model, need not be there.

    Raises:
        OdtcError: as of `read_inputs`.
    """
    needed = {name for each in evaluated for name in each.inputs}
    manifest = trainer.manifest
    arguments = tuple(
        item
        for item in manifest.arguments
        if item.role is not Role.INPUT or item.spec.name in needed
    )
    return read_inputs(path, replace(manifest, arguments=arguments), options, trainer._columns)


def _looked_at(x: Any, trainer: Predicting) -> Any:
    """Inputs as arrays; says of them what `fit` says of its own."""
    items = trainer.manifest.of_role(Role.INPUT)
    x = Ordering(items)(x, lambda: trainer._columns)
    arrays, notes = looked_at(x, items, look_of_prediction)
    for note in notes:
        warn_caller(note)
    return arrays


def _feeds(
    trainer: Predicting, data: Any, options: ReadOptions, evaluation: Evaluation
) -> Iterator[Any] | None:
    """What is fed, a part at a time; None where the data is arrays."""
    manifest = trainer.manifest
    source = _source(trainer, data, options, evaluation)
    if source is not None:
        for note in notes_of(source, options, is_trained=False):
            warn_caller(note)
        return feeds_of(source, manifest, [evaluation])
    if is_stream(data):
        stream = streamed(data, manifest, inputs_alone=True)
        for note in stream.notes:
            warn_caller(note)
        return _batches(stream, trainer)
    if _are_batches(data):
        return _of_loader(data, trainer)
    return None


def _source(
    trainer: Predicting, data: Any, options: ReadOptions, evaluation: Evaluation
) -> Source | None:
    """Samples that can be asked for by number; None of others, and of arrays."""
    manifest = trainer.manifest
    if isinstance(data, str | os.PathLike):
        return read_samples(trainer, Path(os.fspath(data)), options, [evaluation])
    refuse_splits(data)
    wanted = wanted_by(manifest, options, columns=trainer._columns)
    wanted = replace(wanted, inputs_alone=True)
    if are_rows(data, wanted):
        return _asked_for(data, trainer)
    if are_token_rows(data, wanted) or are_documents(data, options):
        return rows_of_documents(data, wanted)
    if is_frame(data) and len(wanted.inputs) > 1:
        # Each column is the input of its name.
        return noted(read_frame(data, wanted), wanted, [*manifest.bound])
    is_array = is_frame(data) or isinstance(data, Mapping)
    if not is_array and is_indexed(data):
        return _asked_for(data, trainer)
    return None


def _asked_for(data: Any, trainer: Predicting) -> Source:
    """Samples of which each is asked for by its number."""
    source = indexed(data, trainer.manifest, inputs_alone=True)
    return predicted_rows(source, trainer.manifest, trainer.can_fill_rows)


def _are_batches(data: Any) -> bool:
    """Whether it is gone through for batches: a loader, or a list of pairs or of mappings."""
    if isinstance(data, list | tuple):
        return bool(data) and not is_pair(data) and all(map(_is_batch, data))
    is_array = hasattr(data, "dtype") or is_frame(data) or isinstance(data, Mapping | str | bytes)
    return isinstance(data, Iterable) and not is_array


def _is_batch(item: Any) -> bool:
    """Whether an item of a list has arrays by name, or a pair with some: no sample of numbers."""
    if isinstance(item, Mapping):
        return True
    if is_frame(framed(item)):
        return True
    return (
        isinstance(item, list | tuple)
        and bool(item)
        and (isinstance(item[0], Mapping) or getattr(item[0], "ndim", 0) > 0)
    )


def _of_loader(loader: Any, trainer: Predicting) -> Iterator[Any]:
    """The inputs of each batch; says in which order they come, and how many never did."""
    if note := note_of_order(loader):
        warn_caller(note)
    inputs = trainer.manifest.of_role(Role.INPUT)
    given, placed = 0, [item for item in inputs if item.place]
    for batch in _batches(loader, trainer):
        yield batch
        given += count_samples({item: batch[item.spec.name] for item in placed}, "data") or 0
    if placed and (note := note_of_left(loader, given)):
        warn_caller(note)


def _batches(batches: Iterable[Any], trainer: Predicting) -> Iterator[Any]:
    """The inputs of each batch, as a step would take them; columns of tables by their names."""
    manifest = trainer.manifest
    inputs = manifest.of_role(Role.INPUT)
    ordering = Ordering(inputs)
    naming = Naming(inputs, manifest.labels, "data", "a batch", inputs_alone=True)
    taking, is_told = Taking(inputs, "data", is_predicted=True), False
    for batch in batches:
        table = framed(batch)
        held = _inputs_alone(table, trainer) if is_frame(table) else table
        x = ordering(_inputs_of(held, naming), lambda: trainer._columns)
        if not is_told and (said := naming.left_out(held)):
            warn_caller(said)
        is_told = True
        yield taking({name: as_array(array, f"input {name}") for name, array in x.items()})
        for note in taking.untold():
            warn_caller(note)


def _inputs_of(batch: Any, naming: Naming) -> Mapping[str, Any]:
    """The inputs of a batch: of a pair the first, of a mapping or of parts those that are some."""
    if not isinstance(batch, list | tuple):
        return _named(batch, naming)
    of_pair = len(batch) == _PAIR and (
        len(naming.inputs) == 1 or isinstance(batch[0], Mapping | list | tuple)
    )
    if not of_pair:
        return _named(batch, naming)
    return batch[0] if isinstance(batch[0], Mapping) else _named(batch[0], naming)


def _named(item: Any, naming: Naming) -> dict[str, Any]:
    found = naming.named(item)
    return {each.spec.name: found[each.spec.name] for each in naming.inputs}


def _inputs_alone(data: Any, trainer: Predicting) -> Any:
    """Arrays without the labels that `fit` would take with them."""
    manifest = trainer.manifest
    labels = [item.spec.name for item in manifest.labels]
    inputs = [item.spec.name for item in manifest.of_role(Role.INPUT)]
    if is_pair(data):
        return data[0]
    if isinstance(data, Mapping):
        theirs = {*labels, *LABELS} - {*inputs, *manifest.bound}
        kept = {name: array for name, array in data.items() if name not in theirs}
        is_short = len(inputs) == 1 and kept.keys() == {"x"}
        return {inputs[0]: kept["x"]} if is_short else kept
    if is_frame(data):
        trained = {name for each in trainer._columns.values() for name in each}
        kept = {*feature_columns([*map(str, data.columns)], labels), *trained}
        return data[[name for name in data.columns if str(name) in kept]]
    return data
