"""`Trainer.fit`: reads what a caller gives, and runs it."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from odtc.core.errors import NumericError, UsageError
from odtc.core.finite import check_finite
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.idle import said_of_idle
from odtc.core.options.kinds import shown
from odtc.runtime_rpc.data.augment import augmented
from odtc.runtime_rpc.data.objects.given import held_source, seed_loader, source_of
from odtc.runtime_rpc.data.objects.indexed import Indexed
from odtc.runtime_rpc.data.objects.ragged import ragged
from odtc.runtime_rpc.data.objects.streams import is_stream, streamed
from odtc.runtime_rpc.data.same import notes_beside
from odtc.runtime_rpc.data.samples import Samples
from odtc.runtime_rpc.data.source import Named, Stream, notes_of
from odtc.runtime_rpc.data.tables.ordering import are_turned
from odtc.runtime_rpc.data.wanted import ReadOptions
from odtc.runtime_rpc.feed.calling import NO_RATE, learning_rate, schedule_of
from odtc.runtime_rpc.lengths.batching import batched_by_length
from odtc.runtime_rpc.lengths.joining import Joining
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.callbacks import callbacks_of
from odtc.runtime_rpc.loop.course import Course
from odtc.runtime_rpc.loop.features.keeping import cache_bytes, keep_features
from odtc.runtime_rpc.loop.feed import Feed, Passes, left_of_passes, left_text
from odtc.runtime_rpc.loop.going import go
from odtc.runtime_rpc.loop.history import History, column_names_of
from odtc.runtime_rpc.loop.idle import OF_RUN, Begun, left_of_updates
from odtc.runtime_rpc.loop.keeping import BestCheckpoint
from odtc.runtime_rpc.loop.measured.metrics import metrics_of
from odtc.runtime_rpc.loop.measured.usual import with_usual
from odtc.runtime_rpc.loop.measured.validation import Validation
from odtc.runtime_rpc.loop.monitor import WITHOUT_VALIDATION
from odtc.runtime_rpc.loop.run import Run, end_texts
from odtc.runtime_rpc.loop.stopping import EarlyStopping
from odtc.runtime_rpc.loop.trained import Trained

_SCHEDULE = (
    "give, for example, schedule=odtc.schedules.Cosine, or a function of the learning rate and the "
    "number of updates"
)


@dataclass(frozen=True)
class Asked:
    """What a caller of `Trainer.fit` gives; the arguments are there."""

    data: Any
    lr: Any
    epochs: int | None
    steps: int | None
    validation: Any
    metrics: Any
    callbacks: Sequence[Any]
    schedule: Callable[[float, int], Any] | None
    validate_every: int | None
    resume: str | None
    seed: int
    steps_per_call: int
    ema: bool
    augment: Any
    options: ReadOptions
    feature_cache: int | str


def fit(trainer: Trained, asked: Asked) -> History:
    """Trains; see `Trainer.fit`."""
    if asked.epochs is not None and asked.steps is not None:
        raise UsageError("both epochs and steps are given", where="fit", hint="give one of them")
    if asked.validation is None and (asked.metrics or asked.validate_every):
        raise UsageError(
            "metrics and validate_every need validation data", where="fit", hint="give validation="
        )
    callbacks = callbacks_of(asked.callbacks)
    if asked.validation is None and any(_needs_validation(each) for each in callbacks):
        warn_caller(WITHOUT_VALIDATION)
    before = column_names_of(trainer.progress)
    _resume(trainer, asked.resume)
    _check_weights(trainer)
    before = column_names_of(trainer.progress) or before
    feed = feed_of(asked.data, asked.seed, asked.augment, asked.options, trainer, before)
    epochs = None if asked.steps else asked.epochs or 1
    length = feed.steps_of(epochs) if epochs else asked.steps
    if epochs and asked.schedule and isinstance(feed, Passes):
        length = feed.expected_steps(epochs)
    trained = feed.source if isinstance(feed, Stream) else feed
    validation = validation_of(trainer, asked, trained)
    course = Course(
        feed,
        asked.steps,
        epochs,
        _schedule(asked, length, trainer.manifest.accumulate),
        asked.steps_per_call,
        validation,
        asked.validate_every,
    )
    _warn_left(feed, course)
    run = Run(trainer, course, trainer.steps if asked.resume is None else 0)
    trainer.history = run.history
    begun = Begun(run, callbacks, asked.seed, asked.feature_cache)
    for said in filter(None, (*said_of_idle(OF_RUN, begun, _called), left_of_updates(begun))):
        warn_caller(f"fit: {said}")
    if said := keep_features(run, cache_bytes(asked.feature_cache, "feature_cache")):
        warn_caller(f"fit: {said}")
    if run.step and course.ends(run.step):
        warn_caller(
            f"the run is finished at step {run.step}, and no step is left to do: give more epochs "
            "or steps to go on"
        )
    history = go(run, callbacks)
    _end(run, callbacks, length)
    return history


def _called(option: str) -> str:
    """What an option of a run is called in Python."""
    of_callbacks = {
        "patience": "patience of odtc.EarlyStopping",
        "checkpoint_every": "every of odtc.Checkpoint",
    }
    return of_callbacks.get(option, option)


def _end(run: Run, callbacks: Sequence[Callback], length: int | None) -> None:
    """Goes back to the best weights where that is asked for; says what was not as expected."""
    is_guess = isinstance(run.course.feed, Passes) and run.course.epochs
    if is_guess and length and run.step != length and not run.history.stopped:
        warn_caller(
            f"fit: the schedule was made for {length} steps, as many as the data seemed to have "
            f"in {run.course.epochs} epochs; there were {run.step}"
        )
    for said in filter(None, end_texts(run)):
        warn_caller(f"fit: {said}")
    feed = run.course.feed
    if isinstance(feed, Passes) and feed.epoch_ends(run.step) and (said := left_of_passes(feed)):
        warn_caller(said)
    for each in callbacks:
        if isinstance(each, BestCheckpoint):
            each.restored(run)
            if missing := each.missing(run):
                warn_caller(missing)


def _needs_validation(callback: Callback) -> bool:
    """Whether it watches what a validation measures, where nobody says another column."""
    return isinstance(callback, EarlyStopping | BestCheckpoint) and not callback.names_column


def read_options(
    tokenizer: str | None,
    end_token: str | None,
    *,
    pack: bool,
    skip_broken: bool,
    where: str = "fit",
) -> ReadOptions:
    """How data is read; `where` is what is told of as having the arguments.

    Raises:
        UsageError: there is an end token, and no tokenizer.
    """
    if end_token and not tokenizer:
        raise UsageError(
            f"end_token is {end_token!r}, and there is no tokenizer that has it",
            where=where,
            hint="give tokenizer=, too",
        )
    return ReadOptions(Path(tokenizer) if tokenizer else None, end_token, pack, skip_broken)


def feed_of(
    data: Any,
    seed: int,
    augment: Any,
    options: ReadOptions,
    trainer: Trained,
    before: Mapping[str, Sequence[str]],
) -> Stream | Passes:
    """The batches of what a caller gives.

    Args:
        data: as of `Trainer.fit`.
        seed: of the samples' order.
        augment: what is done to images.
        options: how it is read.
        trainer: whose step takes them.
        before: names of the columns of each input in the run before, whose weights are trained on:
            the same in another order are taken in that one.

    Raises:
        DataError: it cannot be read, or does not fit the step.
        UsageError: it is nothing of which there are samples.
    """
    manifest = trainer.manifest
    source = source_of(data, manifest, options)
    if source is not None and are_turned(source.column_names, before):
        source = source_of(data, manifest, options, columns=before)
    if isinstance(source, Indexed):
        source = ragged(source, manifest, trainer.can_fill_rows, is_trained=True)
    if isinstance(source, Samples):
        source = batched_by_length(source, manifest, trainer.can_fill_rows)
    if source is None:
        if augment:
            raise UsageError(
                "augment needs samples that are asked for by number, and the data is "
                f"{shown(data)}",
                where="augment",
                hint="give a Dataset, arrays or files; or let the loader augment",
            )
        return _passes(data, trainer, seed, before)
    for note in notes_of(source, options, is_trained=True):
        warn_caller(note)
    return Stream(augmented(source, augment, manifest), manifest.batch, seed)


def _passes(data: Any, trainer: Trained, seed: int, before: Mapping[str, Sequence[str]]) -> Passes:
    """The batches of what can only be gone through."""
    manifest = trainer.manifest
    joining = Joining(manifest, trainer.can_fill_rows)
    # A run that is taken up has its columns, in the order in which they are trained.
    known = column_names_of(trainer.progress) or manifest.columns
    more = {"columns": known, "before": before}
    if not is_stream(data):
        return Passes(data, manifest, joining, begin=partial(seed_loader, data, seed), **more)
    stream = streamed(data, manifest)
    for note in stream.notes:
        warn_caller(note)
    return Passes(stream, manifest, joining, begin=stream.begin, **more)


def validation_of(trainer: Trained, asked: Asked, trained: Named) -> Validation | None:
    """What is measured on other data; None where none is given.

    Args:
        trainer: that is measured.
        asked: for what.
        trained: the samples that are trained, which say what the classes are.

    Raises:
        DataError: it cannot be read, or does not fit the step.
        UsageError: a metric is none, or does not go with the labels.
    """
    data, metrics = asked.validation, asked.metrics
    if data is None:
        return None
    manifest = trainer.manifest
    names = trained.class_names
    columns = trained.column_names
    source = source_of(data, manifest, asked.options, "validation", names, columns)
    if source is None:
        joining = Joining(manifest, trainer.can_fill_rows, "validation")
        batches = streamed(data, manifest) if is_stream(data) else data
        passes = Passes(batches, manifest, joining, columns=columns or manifest.columns)
        source = held_source(manifest, passes.one_pass(), joining, passes.class_names, names)
        source = replace(source, column_names=passes.column_names)
    if isinstance(trained, Passes) and not columns:
        trained.measured = source.column_names
    if isinstance(source, Indexed):
        source = ragged(source, manifest, trainer.can_fill_rows, is_trained=False)
    said = notes_beside(trained, source, (asked.data, data))
    for note in (*notes_of(source, asked.options, is_trained=False), *said):
        warn_caller(note)
    found = Validation(source, manifest, with_usual(metrics_of(metrics), manifest), asked.ema)
    if note := found.note:
        warn_caller(note)
    return found


def _resume(trainer: Trained, resume: str | os.PathLike[str] | None) -> None:
    """Takes a run up, or begins one."""
    if resume is None:
        trainer.progress = ""
    elif Path(resume).exists():
        trainer._go_on(resume)
    else:
        warn_caller(f"there is no checkpoint {os.fspath(resume)} yet: the run begins anew")


def _check_weights(trainer: Trained) -> None:
    """Says where the run before left weights that are no numbers: no data would make a loss.

    Raises:
        NumericError: it did, and nothing else was loaded since.
    """
    if NumericError.__name__ in trainer.history.stopped:
        hint = "load the last checkpoint, or begin with a new trainer: artifact.trainer()"
        check_finite(trainer.parameters(), "the weights that the run before left", hint)


def _schedule(asked: Asked, last_step: int | None, accumulate: int) -> Callable[[int], float]:
    if asked.schedule is None:
        return schedule_of(asked.lr)
    if asked.lr is NO_RATE:
        learning_rate(asked.lr)
    if callable(asked.lr):
        raise UsageError(
            "lr is a schedule already, and schedule is given too", where="fit", hint="give one"
        )
    if not getattr(asked.schedule, "length", True):
        raise UsageError(
            f"schedule is {shown(asked.schedule)}, which takes no length of a run",
            where="fit",
            hint="give lr= one that is made, such as odtc.schedules.Step(0.1, every=100)",
        )
    if last_step is None:
        raise UsageError(
            "nothing says how many steps the epochs of this data have, which the schedule takes",
            where="fit",
            hint="give steps= instead of epochs=, or lr= a schedule of a length of its own",
        )
    try:
        inspect.signature(asked.schedule).bind(0.0, 1)
        made = asked.schedule(asked.lr, max(last_step // accumulate, 1))
    except TypeError as error:
        raise UsageError(
            f"schedule is {shown(asked.schedule)} that does not take what it is given: {error}",
            where="fit",
            hint=_SCHEDULE,
        ) from error
    if not callable(made):
        raise UsageError(
            f"schedule makes {shown(made)}, not a schedule", where="fit", hint=_SCHEDULE
        )
    return schedule_of(made)


def _warn_left(feed: Feed, course: Course) -> None:
    """Says which samples no step takes: those at the end of the last epoch that fill no batch."""
    if isinstance(feed, Stream) and course.epochs and (left := feed.left_of(course.epochs)):
        warn_caller(left_text(feed, left))
