"""`at_lengths`: one source for each length that a step is to be taken at."""

from collections.abc import Sequence
from dataclasses import replace

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.specs import Argument, Role, of_role
from odtc.driver.drafts.source import Source
from odtc.frontend.feeds import batch_symbol, feeds_of

# Where errors are that have to do with lengths.
WHERE = "lengths"
APART = "compile an artifact for each length: --shape NAME=N"
_EXPORT = (
    "export it with one: odtc export --length-axis NAME=AXIS, or `dynamic_shapes` of torch.onnx"
)


def at_lengths(source: Source) -> Sequence[Source]:
    """The source of each length that the user asks for, the longest first; itself without any.

    Raises:
        UsageError: no dimension is left whose size would be the length, a length is none, or
            another option does not go with several.
    """
    options = source.options
    if not (lengths := options.falling_lengths):
        return [source]
    is_one = len(lengths) == 1
    if not is_one:
        _check(source)
    if lengths[-1] < 1:
        raise UsageError(f"{lengths[-1]} is not a length", where=WHERE, hint="give 1 or more")
    names = _symbols(source)
    if not names:
        raise UsageError(
            "the model has no symbolic dimension other than the batch and those that shape gives",
            where=WHERE,
            hint=_EXPORT,
        )
    shape = dict(options.shape or {})
    return [
        replace(
            source,
            options=replace(options, shape=shape | dict.fromkeys(names, length)),
            length=0 if is_one else length,
        )
        for length in lengths
    ]


def require_no_statistics(source: Source, weights: Sequence[Argument]) -> None:
    """Checks that what fills rows up is taken for nothing that they have.

    Args:
        source: of a step.
        weights: of it.

    Raises:
        UnsupportedError: it has several lengths, and running statistics.
    """
    found = of_role(weights, Role.STATISTIC) if source.length else []
    if found:
        raise UnsupportedError(
            "running statistics would be taken of what fills rows up, too",
            where=found[0].spec.name,
            hint=APART,
        )


def _symbols(source: Source) -> list[str]:
    """Names of the dimensions of inputs that nothing gives a size."""
    options, feeds = source.options, feeds_of(source.model)
    shape, given = options.shape or {}, {*(options.shape or {}), *(options.set or {})}
    batch = batch_symbol(feeds, options.batch_axis or {})
    dims = [dim for feed in feeds if feed.name not in given for dim in feed.dims]
    names = dict.fromkeys(dim for dim in dims if isinstance(dim, str))
    return [name for name in names if name and name != batch and name not in shape]


def _check(source: Source) -> None:
    """Checks that the step can have several lengths.

    Raises:
        UsageError: another option does not go with them.
    """
    if source.options.offload:
        raise not_with_lengths("tensors that wait in storage: offload")


def not_with_lengths(what: str) -> UsageError:
    """The error for an option that does not go with several lengths."""
    return UsageError(
        f"a step of several lengths does not have {what}",
        where=WHERE,
        hint=f"leave that out, or {APART}",
    )
