"""The text of a pipeline, as of LLVM's `opt` and `mlir-opt`, and how it is read.

    absorb-transpose,fuse-named{most=64},by-kernel(tvm.StmtSimplify,compact-allocations),tvm.FuseTIR

A text has the options of passes. What else a pass is made with, such as the kernels of a target, it
gets from the pass of that name that the reader is given.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from functools import cache
from types import NoneType
from typing import get_args, get_type_hints

from odtc.core.errors import UsageError
from odtc.core.options.checked_options import (
    NATURAL,
    NOT_NEGATIVE,
    SWITCH,
    Bound,
    read_option,
)
from odtc.core.options.option_text import did_you_mean, parse_options
from odtc.passes.contract import Pass, Pipeline
from odtc.passes.pipeline.table import tvm_table

# A pass as a target and a step have it; a class where they have none, and the text gives all.
Known = Mapping[str, Pass | type[Pass]]

_NONE, _NESTED = "none", "passes"
_WITH_PASSES = re.compile(r"(?P<name>[A-Za-z][\w.-]*)\((?P<inside>.*)\)", re.DOTALL)
_OPEN, _CLOSE = "({", ")}"
# More than any pass has in it: a text from elsewhere may be nested as deep as it is long.
_MOST_NESTED = 8
# The bounds of options by their types: numbers are counts and shares.
_BOUNDS: Mapping[type, Bound] = {bool: SWITCH, int: NATURAL, float: NOT_NEGATIVE}
_LISTED = "`odtc opt --list` prints the passes of a target"


def pipeline_text(passes: Iterable[Pass]) -> str:
    """The text of a pipeline, which `parse_pipeline` reads."""
    return ",".join(map(str, passes))


def parse_pipeline(text: str, known: Known) -> Pipeline:
    """Reads the text of a pipeline.

    Args:
        text: passes with commas between them, each with its options in braces.
        known: what names stand for; TVM's own passes are known beside them.

    Raises:
        UsageError: the text is malformed, or names a pass, an option or a value that is none.
    """
    return _parsed(text, known, depth=0)


def _parsed(text: str, known: Known, depth: int) -> Pipeline:
    if depth > _MOST_NESTED:
        raise UsageError(
            f"passes are nested more than {_MOST_NESTED} deep",
            hint="write passes one after the other, with commas between them",
        )
    return tuple(_parse_pass(each, known, depth) for each in _items(text))


def _known_pass(name: str, known: Known) -> Pass | type[Pass]:
    """Looks a pass up by its name.

    Raises:
        UsageError: there is no such pass; the hint has the nearest name.
    """
    found = known.get(name) or tvm_table().get(name)
    if found is None:
        near = did_you_mean(name, [*known, *tvm_table()])
        raise UsageError(f"unknown pass {name!r}", hint=f"{near}{_LISTED}")
    return found


def require_among(asked: Iterable[str], names: Collection[str]) -> None:
    """Checks that each name is that of a pass that runs.

    Args:
        asked: the names.
        names: those of the passes that run.

    Raises:
        UsageError: no such pass runs; the hint has the nearest name.
    """
    for name in asked:
        if name not in names:
            raise UsageError(f"no pass {name!r} runs", hint=f"{did_you_mean(name, names)}{_LISTED}")


def _items(text: str) -> Iterator[str]:
    """The items between commas outside of all braces."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1
    yield text[begin:].strip()


def _parse_pass(text: str, known: Known, depth: int) -> Pass:
    nested = _WITH_PASSES.fullmatch(text)
    if nested:
        found = _known_pass(nested["name"], known)
        if _NESTED not in {each.name for each in fields(found)}:
            raise UsageError(
                f"the pass {nested['name']} takes no passes in parentheses",
                hint=f"write {nested['name']}, with options in braces",
            )
        inside = _parsed(nested["inside"], known, depth + 1)
        return _made(found, nested["name"], {_NESTED: inside})
    try:
        name, given = parse_options(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the pass {text!r}: {error}",
            hint="write passes with commas between them, such as "
            "absorb-transpose,fuse-named{most=64}",
        ) from error
    found = _known_pass(name, known)
    return _made(found, name, dict(_options(found, name, given)))


def _made(found: Pass | type[Pass], name: str, options: Mapping[str, object]) -> Pass:
    """The pass with its options."""
    if isinstance(found, Pass):
        return replace(found, **options)
    for each in fields(found):
        if _is_needed(each) and each.name not in options:
            raise _lacks(name, each)
    return found(**options)


def _lacks(name: str, each: Field) -> UsageError:
    """The error of a pass that lacks what it is made with."""
    if each.repr:
        written = _written(each)
        return UsageError(
            f"the pass {name} lacks its option {written}", hint=f"write {name}{{{written}=VALUE}}"
        )
    return UsageError(
        f"the pass {name} is not available for this target and step: they provide no {each.name}",
        hint=_LISTED,
    )


def _is_needed(each: Field) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _options(
    found: Pass | type[Pass], name: str, given: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    """The options with their values read."""
    shown = _shown(found if isinstance(found, type) else type(found))
    for key, value in given.items():
        field = key.replace("-", "_")
        if field not in shown:
            known = ", ".join(each.replace("_", "-") for each in shown)
            listed = f"its options are {known}" if known else "it has no options"
            near = did_you_mean(key, shown)
            raise UsageError(f"the pass {name} has no option {key!r}", hint=f"{near}{listed}")
        yield field, _value(f"the pass {name}'s option {key}", value, shown[field])


@cache
def _shown(kind: type[Pass]) -> Mapping[str, type]:
    """Types of the options, by the names of their fields."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.repr}


def _value(where: str, text: str, kind: type) -> object:
    """Reads a value of a type, or of one that may be None."""
    kinds = get_args(kind) or (kind,)
    if NoneType in kinds and text == _NONE:
        return None
    return read_option(_BOUNDS[next(each for each in kinds if each is not NoneType)], text, where)


def _written(each: Field) -> str:
    return each.name.replace("_", "-")
