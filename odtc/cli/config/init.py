"""`odtc init`: writes a first `odtc.toml`, of four answers, once it was seen to work."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.config import questions
from odtc.cli.config.apply import take_options
from odtc.cli.config.file import NAME, find, parsed
from odtc.cli.config.written import Answers, text_of
from odtc.cli.console import emit, say, stages
from odtc.cli.options import MANY, at_least
from odtc.core.errors import ExitCode, OutputError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto

# Samples in a step of a model that takes any number.
_BATCH = 32


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "init",
        help="write a first options file",
        description="Write odtc.toml to this folder, with the options for compiling and training "
        "a model, and check that the model can be trained with them. On a terminal, ask for what "
        "is not given: the model, the data, the target, and what to train.",
    )
    add = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="ONNX file of the model")
    add("--data", metavar="DATA", help="training data; see `odtc train`")
    add(
        "--target",
        metavar="T",
        help="target to compile for; see `odtc targets` (default: host-cpu)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--train",
        **MANY,
        metavar="WHAT",
        help="parameters to train; see `odtc compile` (default: all)",
    )
    what.add_argument(
        "--lora",
        metavar="OPTIONS",
        help="train low-rank adapters, such as rank=8; see `odtc compile`",
    )
    add(
        "--batch",
        type=at_least(1),
        metavar="N",
        help=f"samples per step (default: {_BATCH}, or that of the model)",
    )
    add("--loss", nargs="+", default=[], metavar="L", help="loss; see `odtc compile`")
    add(
        "--shape",
        **MANY,
        default=[],
        metavar="NAME=N",
        help="sizes of symbolic dimensions; see `odtc compile`",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the file, and prints the next command."""
    _check_is_new()
    text = text_of(_answers(args))
    _try(args.parser, text)
    try:
        with Path(NAME).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(
            f"cannot write {NAME}: {error.strerror or error}", hint="look at the folder's rights"
        ) from error
    say(f"wrote {NAME}; this compiles the step, and `odtc train` trains it:")
    emit("odtc compile")
    return ExitCode.OK


def _check_is_new() -> None:
    """Checks that the folder has no options yet.

    Raises:
        UsageError: it has.
    """
    here = Path.cwd()
    found = find(here).file
    path = found.path if found and found.path.parent == here else here / NAME
    if path.exists():
        raise UsageError(
            "there are options of odtc in this folder",
            where=str(path),
            hint="edit the file, or move it away; `odtc config` tells what it says",
        )
    if found:
        say(f"note: {found.name} no longer applies in this folder once it has its own")


def _answers(args: argparse.Namespace) -> Answers:
    """What is given, and what the user answers.

    Raises:
        UsageError: model or data are not given, and nobody can be asked; or are not there.
    """
    can_ask = questions.is_terminal()
    missing = [name for name in ("model", "data") if not getattr(args, name)]
    if missing and not can_ask:
        raise UsageError(
            f"there is no {' and no '.join(missing)}, and no terminal to ask on",
            hint="odtc init MODEL.onnx --data DATA",
        )
    model = args.model or questions.ask_model()
    data = args.data or questions.ask_data()
    for path in (model, data):
        if not Path(path).exists():
            raise UsageError("the file does not exist", where=path, hint="check the path")
    target = args.target or (questions.ask_target() if can_ask else "host-cpu")
    train, lora = args.train or [], args.lora or ""
    if not train and not lora and can_ask:
        train, lora = _trained(questions.ask_trained())
    batch = args.batch or (None if _batch_is_fixed(model) else _BATCH)
    return Answers(model, data, target, train, lora, batch, args.loss, args.shape)


def _trained(answer: str) -> tuple[list[str], str]:
    """What is trained, and adapters, of an answer."""
    if answer == questions.ADAPTERS:
        return [], "rank=8"
    return ([] if answer == questions.EVERYTHING else answer.split()), ""


def _batch_is_fixed(model: str) -> bool:
    """Whether no input of a model has a size that is open.

    Raises:
        ModelError: the file is no model.
    """
    # Imported here, for a quick `--help`.
    from odtc.frontend.file.onnx_file import load_model

    loaded: ModelProto = load_model(model, in_file=True)
    constants = {each.name for each in loaded.graph.initializer}
    inputs = [each for each in loaded.graph.input if each.name not in constants]
    return all(
        dim.HasField("dim_value") for each in inputs for dim in each.type.tensor_type.shape.dim
    )


def _try(parser: argparse.ArgumentParser, text: str) -> None:
    """Checks the model with the options of the file, as `odtc check` does.

    Raises:
        OdtcError: it cannot be trained so.
    """
    with stages() as progress:
        progress("check the model")
        # Imported here, where a spinner turns.
        from odtc.backends.targets import parse_target
        from odtc.cli.compiling.step_options import step_options
        from odtc.driver.examination import examine

        words = ["check"]
        take_options(parser, words, parsed(text.encode(), Path.cwd() / NAME))
        args = parser.parse_args(words)
        report = examine(args.model, parse_target(args.target), step_options(args))
    if not report.trainable:
        raise UnsupportedError(
            "the model cannot be trained so",
            where=args.model,
            hint=f"`odtc check {args.model}` names the nodes",
        )
