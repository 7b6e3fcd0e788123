"""Questions on a terminal, each with what is taken where the answer is empty."""

import sys
from collections.abc import Callable
from pathlib import Path

from odtc.backends.targets import parse_target
from odtc.cli.console import print_error, say
from odtc.core.errors import OdtcError, UsageError

# Names that data for training has, the usual ones first.
_DATA = ("train.npz", "train.safetensors", "train.parquet", "train.csv", "train.jsonl", "train")
EVERYTHING, ADAPTERS = "all", "lora"


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask_model() -> str:
    """The model; the only one of the folder, where nothing is answered."""
    found = sorted(Path().glob("*.onnx"))
    return _asked("Which model, an ONNX file?", str(found[0]) if len(found) == 1 else "", _there)


def ask_data() -> str:
    """The samples."""
    found = [name for name in _DATA if Path(name).exists()]
    return _asked("Which data, a file or a folder?", found[0] if found else "", _there)


def ask_target() -> str:
    """The target."""
    return _asked(
        "For which target? `odtc targets` lists them", "host-cpu", lambda it: str(parse_target(it))
    )


def ask_trained() -> str:
    """What is trained: a word, or words of `odtc compile --train`."""
    return _asked("What is trained? all, last{k=1}, bias, lora, or names such as fc*", EVERYTHING)


def _there(text: str) -> str:
    """Checks the name of a file.

    Raises:
        UsageError: there is none.
    """
    if not Path(text).exists():
        raise UsageError("the file does not exist", where=text, hint="check the path")
    return text


def _asked(question: str, usual: str, check: Callable[[str], str] = str) -> str:
    """The answer; the question comes again until it is one.

    Raises:
        UsageError: there is no answer any more.
    """
    while True:
        say(f"{question}{f' [{usual}]' if usual else ''}")
        line = sys.stdin.readline()
        if not line:
            raise UsageError("there was no answer", hint="`odtc init --help` has the options")
        answer = line.strip() or usual
        try:
            if answer:
                check(answer)
                return answer
        except OdtcError as error:
            print_error(str(error))
