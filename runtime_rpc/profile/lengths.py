"""Which steps a profile is of, where these have several lengths: medians of all are of none."""

from collections import Counter
from collections.abc import Sequence

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ArtifactError, UsageError
from odtc.core.options.caller_warning import warn_caller

_WHERE = "trainer.profile"


def check_length(manifest: Manifest, length: int | None, where: str = _WHERE) -> None:
    """Checks that a step has a length.

    Args:
        manifest: of the step.
        length: None for the longest that is taken.
        where: it was asked for.

    Raises:
        UsageError: the step has no such length.
    """
    if length is not None and not manifest.lengths:
        raise UsageError(
            f"the step was compiled for one size, not for several lengths such as {length}",
            where=where,
            hint="leave the length out; `odtc compile --lengths` makes a step for several",
        )
    if length is not None and length not in manifest.lengths:
        known = ", ".join(map(str, manifest.lengths))
        raise UsageError(
            f"the step was not compiled for a length of {length}; its lengths are {known}",
            where=where,
            hint="give one of them, or leave it out",
        )


def check_plans(manifest: Manifest, plans: int) -> None:
    """Checks that the memory plans of all lengths are there.

    Args:
        manifest: of the step.
        plans: how many memory plans the artifact has.

    Raises:
        ArtifactError: an older odtc compiled the step, and left plans out.
    """
    if plans < len(manifest.every_plan):
        raise ArtifactError(
            "the artifact has no memory plans of the shorter lengths, as those of an older odtc",
            where=_WHERE,
            hint="compile the model again",
        )


def profiled(taken: Sequence[int], length: int | None) -> int:
    """The length that a profile is of; a warning tells which steps are left out for that.

    Args:
        taken: length of each step that was taken.
        length: that was asked for.

    Raises:
        UsageError: no step was taken at that one.
    """
    counts = Counter(taken)
    chosen = max(counts) if length is None else length
    told = {each: f"{count} at {each}" for each, count in sorted(counts.items(), reverse=True)}
    if chosen not in counts:
        raise UsageError(
            f"no step was taken at a length of {chosen}; of those that were, there are "
            f"{', '.join(told.values())}",
            where=_WHERE,
            hint="take some at that length, or profile another one",
        )
    others = ", ".join(text for each, text in told.items() if each != chosen)
    if others:
        warn_caller(
            f"profile: it is of the {counts[chosen]} steps at a length of {chosen}, without what "
            f"moved data; of other steps there are {others}: length= chooses"
        )
    return chosen
