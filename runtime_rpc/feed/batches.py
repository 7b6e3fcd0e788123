"""Checks what a caller feeds against the specs of the compiled step."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import DataError
from odtc.core.ir.place import Place, pad, take
from odtc.core.options.caller_warning import warn_caller
from odtc.core.printable import printable
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.runtime_rpc.data.fitting.labels import as_labels
from odtc.runtime_rpc.feed.arrays import as_array, cast
from odtc.runtime_rpc.feed.class_numbers import check_class_numbers, check_counted
from odtc.runtime_rpc.feed.features import FeatureFeed
from odtc.runtime_rpc.feed.indices import check_indices
from odtc.runtime_rpc.feed.shape_hints import shape_hint
from odtc.runtime_rpc.feed.texts import check_no_texts
from odtc.runtime_rpc.feed.unshifted import note_of_unshifted

Feed = np.ndarray | Mapping[str, np.ndarray]

_PIXELS = "give pixels as bytes from 0 to 255: of numbers in [0, 1], (255 * x).round()"


def named_arrays(
    feed: Feed, names: Sequence[str], what: str = "input", ignored: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """The fed arrays by name; a bare array is the only one.

    Args:
        feed: an array, or arrays by name.
        names: of the inputs, or of the labels.
        what: `input` or `label`.
        ignored: names of others, that the model has too; they may be fed, and are left aside.

    Raises:
        DataError: one is missing, one is fed that the model does not have, or is no array; an input
            is text.
    """
    if what == Role.INPUT.value:
        for name, fed in (feed if isinstance(feed, Mapping) else {None: feed}).items():
            check_no_texts(fed, name and _where(what, str(name)))
    if not isinstance(feed, Mapping):
        if len(names) != 1:
            raise DataError(
                f"the model has {len(names)} {what}s, and one array was fed",
                hint=f"feed {{name: array}} with {', '.join(names)}",
            )
        return {names[0]: as_array(feed, _where(what, names[0]))}
    if set(feed) - set(ignored) != set(names) - set(ignored):
        fed = ", ".join(sorted(map(str, feed)))
        raise DataError(
            f"the {what}s fed are {fed}" if fed else f"no {what}s are fed",
            hint=f"feed {', '.join(names) or 'none'}",
        )
    return {name: as_array(feed[name], _where(what, name)) for name in names}


def fitted(array: np.ndarray, spec: TensorSpec, what: str = "input") -> np.ndarray:
    """The array in the dtype of the spec.

    Raises:
        DataError: the shape differs, the dtype is of another kind, or its numbers do not fit.
    """
    where = _where(what, spec.name)
    if array.shape != spec.shape:
        raise DataError(
            f"{printable(spec.name)} has shape {list(array.shape)}; "
            f"the step takes {list(spec.shape)}",
            where=where,
            hint=shape_hint(array.shape, spec.shape, what),
        )
    if array.dtype == spec.dtype and array.flags.c_contiguous:
        return array
    if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        is_pixels = spec.dtype == "uint8" and array.dtype.kind == "f"
        raise DataError(
            f"{spec.name} is {array.dtype}; the step takes {spec.dtype}",
            where=where,
            hint=_PIXELS if is_pixels else f"convert it to {spec.dtype}",
        )
    return cast(array, spec.dtype, where)


def _where(what: str, name: str) -> str:
    return what if what == name else f"{what} {name}"


def fitted_argument(array: np.ndarray, item: Argument) -> np.ndarray:
    """The array in the dtype of an input or label, its class numbers checked.

    Raises:
        DataError: the shape differs, the dtype is of another kind, or a class number is none.
    """
    if item.classes is None:
        check_indices(array, item)
        return fitted(array, item.spec, item.role)
    is_inside = item.role is Role.INPUT
    check_class_numbers(array, item.classes, item.spec, item.place, is_inside=is_inside)
    return fitted(array.astype(item.spec.dtype, copy=False), item.spec, item.role)


def check_bound(feed: Feed, bound: Mapping[str, Any]) -> None:
    """Checks inputs whose values were given when the step was compiled, where they are fed again.

    Args:
        feed: what a caller feeds.
        bound: the values, by name; None for an input that nothing needs.

    Raises:
        DataError: another value is fed.
    """
    fed = feed if isinstance(feed, Mapping) else {}
    for name in fed.keys() & bound.keys():
        if bound[name] is not None and not np.all(np.asarray(fed[name]) == bound[name]):
            raise DataError(
                f"{name} is not the {bound[name]} that the step was compiled for",
                where=f"input {name}",
                hint=f"leave it out, or compile again with --set {name}=VALUE",
            )


class Fed:
    """The arrays of a step, which are cut when an engine first asks for the parts.

    Attributes:
        whole: by the argument of a call that they are for.
        length: at which the step is taken, where it has several; else 0.
        label_weight: what the labels weigh together; see `LabelWeights`.
        uncounted: why no label counts, where none does and nobody has said so yet.
        hidden: which numbers are not finite, where some are and nobody has said so yet.
    """

    def __init__(
        self, whole: Mapping[Argument, np.ndarray], micro_batches: int, length: int
    ) -> None:
        self.whole, self._micro_batches, self.length = whole, micro_batches, length
        self.label_weight, self.uncounted, self.hidden = 1.0, "", ""

    @property
    def has_features(self) -> bool:
        """Whether it is fed features in place of inputs."""
        return any(item.role is Role.FEATURES for item in self.whole)

    @cached_property
    def parts(self) -> Sequence[Mapping[Argument, np.ndarray]]:
        """The arrays of each call."""
        if self._micro_batches == 1:
            return [self.whole]
        return [
            {item: _part(array, item, part) for item, array in self.whole.items()}
            for part in range(self._micro_batches)
        ]


class FeedConverter:
    """Turns what a caller feeds a step into arguments of its calls; looks up once what they are.

    Args:
        manifest: of the step.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._micro_batches, self._length = manifest.micro_batches, manifest.length
        self._wanted = {role: manifest.fed(role) for role in (Role.INPUT, Role.LABEL)}
        self._names = {role: [i.spec.name for i in items] for role, items in self._wanted.items()}
        self._of_a_call = {role: manifest.of_role(role) for role in self._wanted}
        self._bound, self._counted = manifest.bound, manifest.counted
        kept = [item for each in manifest.features for item in each.arguments]
        self._features = (*kept, *self._of_a_call[Role.INPUT])
        self._was_fed = False
        self._told = set[str]()

    def fed(self, x: Feed, y: Feed | None) -> Fed:
        """Collects the arrays of a step.

        Raises:
            DataError: a name, a shape, a dtype or a label does not fit.
        """
        if isinstance(x, FeatureFeed):
            return self._over_features(x, y)
        check_bound(x, self._bound)
        fed = self._fitted(x, Role.INPUT) | self._fitted({} if y is None else y, Role.LABEL)
        check_counted(fed, self._counted)
        # One batch shows it: the others pay nothing.
        if not self._was_fed and (said := note_of_unshifted(fed)):
            warn_caller(said)
        self._was_fed = True
        return Fed(fed, self._micro_batches, self._length)

    def _over_features(self, x: FeatureFeed, y: Feed | None) -> Fed:
        """Collects the arrays of a step that goes on from features."""
        fed = {item: x[item.spec.name] for item in self._features if item.spec.name in x}
        fed |= self._fitted({} if y is None else y, Role.LABEL)
        return Fed(fed, self._micro_batches, self._length)

    def _fitted(self, feed: Feed, role: Role) -> dict[Argument, np.ndarray]:
        """The arrays of a role for a whole step, by the argument of a call that each is for."""
        ignored = self._bound if role is Role.INPUT else ()
        arrays = named_arrays(feed, self._names[role], role.value, ignored)
        return {
            item: fitted_argument(self._as_classes(arrays[whole.spec.name], whole), whole)
            for item, whole in zip(self._of_a_call[role], self._wanted[role], strict=True)
        }

    def _as_classes(self, array: np.ndarray, item: Argument) -> np.ndarray:
        """Labels that are whole floats or truth values as class numbers, as `fit` takes them.

        Raises:
            DataError: some are missing.
        """
        if item.role is not Role.LABEL or item.classes is None or array.dtype.kind not in "bf":
            return array
        labels = as_labels(array, item, (), "step")
        if labels.note and labels.note not in self._told:
            self._told.add(labels.note)
            warn_caller(labels.note)
        return labels.array


def _part(array: np.ndarray, item: Argument, part: int) -> np.ndarray:
    """The part of an array of a whole step that a micro-batch is given."""
    if item.place is None:
        return array
    count = item.place.count(item.spec.shape)
    taken = take(array, item.place, slice(part * count, (part + 1) * count))
    return np.ascontiguousarray(taken)


def size_for(sizes: Sequence[int], left: int) -> int:
    """The samples of the next batch where so many are left.

    The smallest that has room for all of them; but where more of that room would be empty than
    full, the next smaller one. `runtime/evaluate.c` has the same rule, for the same bits.

    Args:
        sizes: that a batch may have, the largest first.
        left: samples, at least 1.
    """
    fitting = [size for size in sizes if size >= left]
    if not fitting:
        return sizes[0]
    return fitting[-1] if fitting[-1] <= 2 * left else [*sizes[len(fitting) :], fitting[-1]][0]


def padded_batches(
    inputs: Mapping[Argument, np.ndarray], sizes: Sequence[int]
) -> Iterator[tuple[dict[Argument, np.ndarray], int, int]]:
    """Cuts inputs into batches; yields each with its size and true length.

    What a batch is filled up with are copies of its last sample.

    Inputs that hold no samples are whole in each of them.

    Args:
        inputs: any number of samples.
        sizes: that a batch may have, the largest first.

    Raises:
        DataError: the inputs hold different numbers of samples, or none.
    """
    total = count_samples({item: array for item, array in inputs.items() if item.place}) or sizes[0]
    for item, array in inputs.items():
        _check_others(array, item, total)
    start = 0
    while start < total:
        size = size_for(sizes, total - start)
        length = min(size, total - start)
        yield (
            {
                item: array
                if item.place is None
                else pad(
                    take(array, item.place, slice(start, start + length)),
                    item.place,
                    size - length,
                )
                for item, array in inputs.items()
            },
            size,
            length,
        )
        start += length


def _check_others(array: np.ndarray, item: Argument, samples: int) -> None:
    """Checks an input for so many samples; padding would hide the size that it really has."""
    shape = item.spec.shape
    if item.place and array.ndim != len(shape):
        sizes = ["samples" if axis == item.place.axis else n for axis, n in enumerate(shape)]
        raise DataError(
            f"{printable(item.spec.name)} has shape {list(array.shape)}; an evaluation takes "
            f"[{', '.join(map(str, sizes))}]",
            where=_where("input", item.spec.name),
            hint="a single sample is a batch of one: x[None]",
        )
    wanted = item.place.shape_of(shape, samples) if item.place else shape
    fitted(array, replace(item.spec, shape=wanted))


def count_samples(arrays: Mapping[Argument, np.ndarray], where: str | None = None) -> int:
    """Samples in arrays that each hold some; 0 where there is no array.

    Args:
        arrays: by the argument that they are for.
        where: they come from, for messages.

    Raises:
        DataError: they hold different numbers, or none, or no whole ones.
    """
    places = {item.spec.name: (item.place or Place(0), array) for item, array in arrays.items()}
    for name, (place, array) in places.items():
        if not place.fits(array.shape):
            raise DataError(
                f"{printable(name)} has shape {list(array.shape)}: "
                f"its samples lie along axis {place.axis}"
                + f", {place.outer * place.inner} entries each"
                * (place.outer * place.inner > 1),
                where=where or f"input {name}",
                hint="a single sample is a batch of one: x[None]; of a list of samples "
                "torch.utils.data.DataLoader(samples, batch_size=8) makes batches",
            )
    counts = {name: place.count(array.shape) for name, (place, array) in places.items()}
    if 0 in counts.values() or len({*counts.values()}) > 1:
        said = ", ".join(
            f"{printable(name)} {count}"
            + f" along axis {places[name][0].axis}" * bool(places[name][0].axis)
            for name, count in counts.items()
        )
        raise DataError(
            f"the arrays hold different numbers of samples, or none: {said}",
            where=where,
            hint="each needs one entry per sample",
        )
    return next(iter(counts.values()), 0)
