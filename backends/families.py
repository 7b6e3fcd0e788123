"""Differences between kinds of targets in lowering: a row of a table for each."""

from collections.abc import Callable
from dataclasses import replace

from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.family.cpu import cpu_family
from odtc.backends.family.family import Family
from odtc.backends.family.gpu import gpu_family
from odtc.backends.targets import Target

_FAMILIES: dict[str, Callable[[Target, bool], Family]] = {
    "llvm": cpu_family,
    "opencl": gpu_family,
    "vulkan": gpu_family,
}


def family_of(
    target: Target,
    *,
    has_half: bool = False,
    records: RecordLookup = no_records,
    direct: bool = False,
) -> Family:
    """The family of a resolved target.

    Args:
        target: it.
        has_half: whether products may multiply float16.
        records: what is known of products that were measured.
        direct: as of `WriteProducts`.
    """
    family = _FAMILIES[target.kind](target, has_half)
    return replace(family, products=replace(family.products, records=records, direct=direct))
