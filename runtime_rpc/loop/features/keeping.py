"""Decides whether a run keeps features, and lets it take its steps over them.

A run whose first layers are frozen computes the same of a sample in each epoch. Those layers run
once for each sample, where nothing says otherwise; each reason against it is a line of a table.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from odtc.core.artifact.manifest import Features, Manifest
from odtc.core.ir.place import Place
from odtc.core.options.byte_sizes import parse_bytes
from odtc.core.specs import Role
from odtc.runtime_rpc.data.augment import Augmented
from odtc.runtime_rpc.data.source import Source, Stream
from odtc.runtime_rpc.loop.features.kept import KeptInOrder, KeptSamples
from odtc.runtime_rpc.loop.features.making import Maker
from odtc.runtime_rpc.loop.measured.validation import Validation
from odtc.runtime_rpc.loop.run import Run

_MOVING = (
    "; batch normalisations take the statistics of each batch, so that what follows the first of "
    "them is computed at each step: compile with --freeze-batch-norm to keep it"
)


def cache_bytes(given: int | str, what: str) -> int:
    """Bytes of features that a run may keep; 0 for none.

    Args:
        given: as of `parse_bytes`, or 0.
        what: it is called in messages.

    Raises:
        UsageError: it is no number of bytes.
    """
    is_none = isinstance(given, int | str) and given in (0, "0")
    return 0 if is_none else parse_bytes(given, what)


def step_features(manifest: Manifest) -> Features | None:
    """The features that the step can go on from; None where it trains from the input on."""
    plans = {plan.function for plan in manifest.plans}
    return next((each for each in manifest.features if each.of in plans), None)


def keep_features(run: Run, limit: int) -> str:
    """Lets a run take its steps and validations over features, where it may and should.

    Args:
        run: before its first step; its course is replaced.
        limit: bytes that may be kept; 0 for none.

    Returns:
        What was done or why not, in a line; empty where nothing is to be said.

    Raises:
        OdtcError: samples cannot be read, or the device failed.
    """
    of_step = step_features(run.trainer.manifest)
    if not limit or not of_step:
        return ""
    asked = _Asked(run, of_step, limit)
    moving = _MOVING if run.trainer.manifest.of_role(Role.STATISTIC) else ""
    for reason in _REASONS:
        if why := reason(asked):
            return f"what frozen layers make of a sample is computed at each step: {why}{moving}"
    try:
        return asked.keep() + moving
    except OSError as error:
        return (
            "what frozen layers make of a sample is computed at each step: there is no room for "
            f"{asked.nbytes:,} bytes: {error.strerror or error}"
        )


@dataclass(frozen=True)
class _Asked:
    """What a run would keep.

    Attributes:
        run: before its first step.
        of_step: the features that the step goes on from.
        limit: bytes that may be kept.
    """

    run: Run
    of_step: Features
    limit: int

    @property
    def maker(self) -> Maker:
        """Of what steps go on from."""
        return Maker(self.run.trainer, [self.of_step])

    @property
    def stream(self) -> Stream:
        """The batches of the run."""
        assert isinstance(self.run.course.feed, Stream)
        return self.run.course.feed

    @property
    def validated(self) -> Maker | None:
        """Of what validations go on from; None where they compute all."""
        validation, trainer = self.run.course.validation, self.run.trainer
        if not validation or not _is_fit_for_keeping(validation):
            return None
        found = [trainer.manifest.features_of(each.function) for each in validation.evaluated]
        functions = [each for each in found if each]
        return Maker(trainer, functions) if len(functions) == len(found) else None

    @property
    def nbytes(self) -> int:
        """Bytes that would be kept."""
        total = self.maker.sample_bytes * len(self.stream.source)
        if (validated := self.validated) and self.run.course.validation:
            total += validated.sample_bytes * len(self.run.course.validation.source)
        return total

    def keep(self) -> str:
        """Computes features, and gives the run a course over them."""
        run, stream, began = self.run, self.stream, time.perf_counter()
        kept, labels, _ = self.maker.kept(stream.source, len(stream.source))
        source = KeptSamples(stream.source, kept, labels, self._label_places)
        seconds, nbytes, also = time.perf_counter() - began, kept.nbytes, ""
        course = replace(run.course, feed=replace(stream, source=source))
        if (validated := self.validated) and course.validation:
            held = self._kept_in_order(validated, course.validation.source)
            course = replace(course, validation=replace(course.validation, source=held))
            nbytes, also = nbytes + held.kept.nbytes, f" and {held.whole} of the validation"
        run.course = course
        spared = 1000 * seconds / len(source) * stream.batch
        return (
            f"what frozen layers make of {len(source)} samples{also} was computed once, "
            f"{nbytes:,} bytes in {time.perf_counter() - began:.2f} s: each step is spared "
            f"{spared:.2f} ms"
        )

    def _kept_in_order(self, maker: Maker, held: Source) -> KeptInOrder:
        """The samples of a validation."""
        whole = len(held) - len(held) % self.run.trainer.manifest.micro_batch
        kept, labels, rest = maker.kept(held, whole)
        left = rest if whole < len(held) else None
        return KeptInOrder(held, kept, labels, self._label_places, whole, left)

    @property
    def _label_places(self) -> dict[str, Place]:
        labels = self.run.trainer.manifest.labels
        return {item.spec.name: item.place for item in labels if item.place}


def _is_fit_for_keeping(validation: Validation) -> bool:
    return validation.source.is_fixed and not validation.is_whole


def _is_elsewhere(asked: _Asked) -> str:
    if asked.run.trainer.frozen_writes is not None:
        return ""
    return f"{asked.run.trainer.session.name} takes whole steps"


def _is_more_to_send(asked: _Asked) -> str:
    """A device is sent features at each step, in place of inputs."""
    if asked.run.trainer.session.is_local:
        return ""
    manifest = asked.run.trainer.manifest
    inputs = sum(item.spec.nbytes for item in manifest.of_role(Role.INPUT)) // manifest.micro_batch
    kept = asked.maker.sample_bytes
    return "" if kept <= inputs else f"{kept:,} bytes a sample would be sent in place of {inputs:,}"


def _is_gone_through(asked: _Asked) -> str:
    return (
        ""
        if isinstance(asked.run.course.feed, Stream)
        else "the data is gone through anew in each epoch, and may be other data then"
    )


def _is_augmented(asked: _Asked) -> str:
    is_so = isinstance(asked.stream.source, Augmented)
    return "images are augmented, and others at each step" if is_so else ""


def _is_drawn(asked: _Asked) -> str:
    source: Source = asked.stream.source
    return "" if source.is_fixed else f"{source.where} may give another sample each time"


def _has_whole_labels(asked: _Asked) -> str:
    labels = asked.run.trainer.manifest.labels
    is_so = labels and all(item.place for item in labels)
    return "" if is_so else "no label has an entry for each sample"


def _cuts_oddly(asked: _Asked) -> str:
    items = [*asked.maker.items, *(asked.validated.items if asked.validated else ())]
    odd = [item.spec.name for item in items if item.place and item.place.outer > 1]
    return f"the samples of {odd[0]} do not lie together" if odd else ""


def _is_taken_once(asked: _Asked) -> str:
    last = asked.run.course.last_step or 0
    taken = (last - asked.run.step) * asked.stream.batch
    return "" if taken > len(asked.stream.source) else "no sample is taken twice"


def _is_too_much(asked: _Asked) -> str:
    if asked.nbytes <= asked.limit:
        return ""
    return (
        f"it takes {asked.nbytes:,} bytes, and {asked.limit:,} may be kept (--feature-cache, "
        "feature_cache)"
    )


def _is_refused(asked: _Asked) -> str:
    return asked.maker.refusal(asked.stream.source)


# Each says why nothing is kept, or nothing; the first one that does decides.
_REASONS: tuple[Callable[[_Asked], str], ...] = (
    *(_is_elsewhere, _is_gone_through, _is_augmented, _is_drawn, _has_whole_labels),
    *(_cuts_oddly, _is_taken_once, _is_too_much, _is_more_to_send, _is_refused),
)
