"""The options that say which training step is made of a model, and for which target.

The flags are those of the table of `StepOptions`; how the words after a flag are read is said here,
once for each form. An option that is not given has the table's default.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odtc.cli.compiling.update_options import add_update_options, read_update
from odtc.cli.console import stages
from odtc.cli.options import MANY, at_least, parse_axis, parse_setting, parse_shape
from odtc.cli.switches import Switch
from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.outputs import check_outputs, is_same_file
from odtc.core.errors import UsageError
from odtc.driver.options.option import Flag, Form, Option, options_of
from odtc.driver.options.step_options import StepOptions


def _losses(texts: Sequence[str]) -> Any:
    # Imported here, for a quick `--help`.
    from odtc.frontend.losses.terms import parse_terms

    return parse_terms(texts)


def _adapters(text: str) -> Any:
    from odtc.frontend.trained.lora import parse_lora

    return parse_lora(text)


def _normalization(text: str) -> Any:
    from odtc.driver.drafts.normalizing import as_normalize

    # A large folder takes minutes.
    with stages() as progress:
        return as_normalize(text, progress)


@dataclass(frozen=True)
class _Reader:
    """How the words after a flag become the value of an option.

    Attributes:
        words: what argparse is told of them.
        read: from what argparse makes of them to the value.
    """

    words: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any], Any] = lambda value: value


_READERS = {
    Form.TEXT: _Reader(),
    Form.WHOLE: _Reader({"type": int}),
    Form.COUNT: _Reader({"type": at_least(1)}),
    Form.COUNTS: _Reader({**MANY, "type": at_least(1)}),
    Form.SWITCH: _Reader({"action": Switch}),
    Form.TEXTS: _Reader(MANY),
    Form.SIZES: _Reader({**MANY, "type": parse_shape}, dict),
    Form.AXES: _Reader({**MANY, "type": parse_axis}, dict),
    Form.VALUES: _Reader({**MANY, "type": parse_setting}, dict),
    Form.LOSSES: _Reader({"nargs": "+"}, _losses),
    Form.ADAPTERS: _Reader(read=_adapters),
    Form.NORMALIZATION: _Reader(read=_normalization),
}


def _flags() -> Iterator[tuple[Option, Flag]]:
    """The options that have a flag."""
    for option in options_of(StepOptions):
        if option.flag:
            yield option, option.flag


def add_step_options(parser: argparse.ArgumentParser, *, needs_model: bool = True) -> None:
    """The model, the target, and how the step is made.

    Args:
        parser: of the command.
        needs_model: whether the command does nothing without a model.
    """
    nargs = None if needs_model else "?"
    parser.add_argument("model", nargs=nargs, metavar="MODEL", help="ONNX file of the model")
    parser.add_argument(
        "--target",
        default="host-cpu",
        metavar="T",
        help="target to compile for; see `odtc targets` (default: host-cpu)",
    )
    for option, flag in _flags():
        words = dict(_READERS[flag.form].words)
        if flag.metavar:
            words["metavar"] = flag.metavar
        if flag.form is Form.SWITCH:
            words["stands"] = option.default
        parser.add_argument(
            flag.name, dest=option.name, default=argparse.SUPPRESS, help=flag.help, **words
        )
    add_update_options(parser)


def check_is_not_read(output: Path, model: str, options: StepOptions, hint: str) -> None:
    """Checks that what is written replaces neither the model nor a file that an option names.

    Raises:
        UsageError: it would.
    """
    # Imported here, for a quick `--help`.
    from odtc.frontend.weights.in_file import data_files
    from odtc.step_cache.key import named_files

    if is_same_file(output, model) and (error := mistaken(model, "ONNX model", UsageError)):
        raise error
    inputs = {
        "the model": [model],
        "the model's data": data_files(Path(model)) if output.exists() else (),
        "a file that an option names": named_files(options),
    }
    check_outputs([output], inputs, hint)


def step_options(args: argparse.Namespace) -> StepOptions:
    """The options that `add_step_options` read, without the model and the target.

    Raises:
        UsageError: an option is malformed, or has a value that is none.
    """
    given = {
        option.name: _READERS[flag.form].read(getattr(args, option.name))
        for option, flag in _flags()
        if hasattr(args, option.name)
    }
    return StepOptions(**given, optimizer=read_update(args))
