"""The table that the machine's model reads, in its own file."""

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.arm.fit.tiles import Shape
from odtc.backends import counted_tiles

# Counts differ by less from one run to the next.
_PLACES = 2


def write_table(name: str, cycles: Mapping[Shape, float]) -> Path:
    """Replaces the entries of a table; returns its file."""
    path = Path(counted_tiles.__file__)
    path.write_text(rewritten(path.read_text(encoding="utf-8"), name, cycles), encoding="utf-8")
    return path


def rewritten(source: str, name: str, cycles: Mapping[Shape, float]) -> str:
    """The source with other entries in a table, the widest tiles last.

    Raises:
        ValueError: there is no such table.
    """
    ordered = sorted(cycles.items(), key=lambda item: (item[0][1], item[0][0]))
    lines = "".join(
        f"        ({rows}, {vectors}): {round(each, _PLACES)},\n"
        for (rows, vectors), each in ordered
    )
    table = rf"(^{name} = CountedTiles\(\n    {{\n).*?(^    }}\n)"
    found, count = re.subn(table, rf"\g<1>{lines}\g<2>", source, flags=re.DOTALL | re.MULTILINE)
    if count != 1:
        raise ValueError(f"the source has {count} tables {name}")
    return found
