"""The command line and Python have the same names; old ones are taken, and said."""

import inspect
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import odtc
from odtc.cli.main import build_parser, main
from odtc.cli.old_names import OLD_NAMES
from odtc.cli.parser_tree import actions_of, leaves_of, long_name, long_names
from odtc.core.errors import ExitCode, UsageError
from tests.cli.training.digits import Digits
from tests.pages.followed import DOCS

# The functions that take the options of a command.
FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "compile": (odtc.compile, odtc.Update),
    "plan": (odtc.plan, odtc.Update),
    "check": (odtc.compile, odtc.Update),
    "train": (odtc.Trainer.fit, odtc.Artifact.trainer, odtc.Trainer.export_onnx),
    "predict": (odtc.Trainer.predict, odtc.Artifact.trainer),
    "profile": (odtc.Trainer.fit, odtc.Artifact.trainer, odtc.Trainer.profile),
    "adapt": (odtc.replace_head,),
    "export": (odtc.from_torch,),
    "inspect": (),
}
OF_NONE = {"help", "model", "artifact", "source"}


def pairs() -> list[tuple[list[str], list[str]]]:
    """Options that are no arguments, each line with what Python has in their place."""
    text = (DOCS / "howto" / "python.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall("--([a-z-]+)", row[0]), re.findall("`([^`]+)`", row[1])) for row in rows]


ELSEWHERE = {option for options, _ in pairs() for option in options}


@cache
def leaves() -> dict[str, Any]:
    return {path[0]: leaf for path, leaf in leaves_of(build_parser()) if path[0] in FUNCTIONS}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_an_option_is_an_argument_of_its_name_or_the_page_has_it(command: str):
    taken = {n for each in FUNCTIONS[command] for n in inspect.signature(each).parameters}
    options = {long_name(action) for action in actions_of(leaves()[command])} - OF_NONE
    missing = {each for each in options if each.replace("-", "_") not in taken}
    assert missing <= ELSEWHERE


def test_what_the_page_has_is_there():
    known = {n for leaf in leaves().values() for a in actions_of(leaf) for n in long_names(a)}
    assert known >= ELSEWHERE
    for code in (code for _, found in pairs() for code in found if not code.endswith("=")):
        name, _, arguments = code.removesuffix(")").partition("(")
        found: Any = {"artifact": odtc.Artifact, "trainer": odtc.Trainer, "odtc": odtc}[
            name.partition(".")[0]
        ]
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        if arguments:
            takes = inspect.signature(found).parameters
            assert {each.split("=")[0].strip() for each in arguments.split(",")} <= {*takes}, code


def test_no_option_is_named_as_an_old_one():
    for _, leaf in leaves_of(build_parser()):
        known = {name for action in actions_of(leaf) for name in long_names(action)}
        assert not known & OLD_NAMES.keys()


def old_calls(folder: Path) -> dict[str, tuple[Callable[[], Any], str]]:
    """Calls by old names, each with what is said of it."""
    none = str(folder / "none.onnx")
    return {
        "compile": (lambda: odtc.compile(none, params="fc*"), "odtc.compile(params=...)"),  # type: ignore[call-arg]
        "axes": (lambda: odtc.compile(none, batch_axes={}), "odtc.compile(batch_axes=...)"),  # type: ignore[call-arg]
        "plan": (lambda: odtc.plan(none, set_inputs={}), "odtc.plan(set_inputs=...)"),  # type: ignore[call-arg]
        "head": (
            lambda: odtc.replace_head(none, 2, folder / "h.onnx", freeze=True),  # type: ignore[call-arg]
            "odtc.replace_head(freeze=...)",
        ),
    }


@pytest.mark.parametrize("name", ["compile", "axes", "plan", "head"])
def test_an_old_name_is_said_at_the_line_that_has_it(name: str, tmp_path: Path):
    call, said = old_calls(tmp_path)[name]
    with (
        pytest.warns(DeprecationWarning, match="is an old name") as caught,
        pytest.raises(odtc.OdtcError),
    ):
        call()
    assert str(caught[0].message).startswith(f"{said} is an old name: write ")
    assert (caught[0].filename, caught[0].lineno) == (__file__, call.__code__.co_firstlineno)


def test_an_old_name_is_said_once_for_each_place(tmp_path: Path):
    def first() -> None:
        with pytest.raises(odtc.OdtcError):
            odtc.plan(tmp_path / "none.onnx", params="fc*")  # type: ignore[call-arg]

    def second() -> None:
        with pytest.raises(odtc.OdtcError):
            odtc.plan(tmp_path / "none.onnx", params="fc*")  # type: ignore[call-arg]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for call in (first, first, second, first):
            call()
    assert len(caught) == 2


def test_an_old_name_does_what_the_new_one_does(digits: Digits, tmp_path: Path):
    new = odtc.compile(digits.model, batch=16, train="fc*", batch_axis={"logits": 0})
    with pytest.warns(DeprecationWarning, match="is an old name"):
        old = odtc.compile(digits.model, batch=16, params="fc*", batch_axes={"logits": 0})  # type: ignore[call-arg]
    assert old.manifest == new.manifest
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    odtc.replace_head(digits.model, 3, one, of="logits", freeze_backbone=True)
    with pytest.warns(DeprecationWarning, match="is an old name"):
        odtc.replace_head(digits.model, 3, other, output="logits", freeze=True)  # type: ignore[call-arg]
    assert one.read_bytes() == other.read_bytes()
    with pytest.raises(UsageError, match="params and train are the same argument"):
        odtc.compile(digits.model, batch=16, train="fc*", params="fc*")  # type: ignore[call-arg]


def test_an_old_option_is_taken_with_a_note(digits: Digits, here: Path, run_json, capsys):
    words = ["train", digits.artifact, "--data", digits.train, "--lr", "0.05", "--steps", "2"]
    words += ["--validation", digits.test]
    new = run_json(*words, "--metrics", "accuracy", "f1")
    old = run_json(*words, "--metric", "accuracy", "f1")
    assert old["history"] == new["history"]
    main([*map(str, words), "--metric=f1"])
    assert "note: --metric is an old name: write --metrics\n" in capsys.readouterr().err
    (here / "odtc.toml").write_text("[train]\nmetric = ['accuracy', 'f1']\n")
    assert run_json(*words)["history"] == new["history"]
    assert main(["config", *map(str, words), "--metric", "f1"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert "note: odtc.toml, line 2: metric is an old name: write metrics" in printed.err
    assert "note: --metric is an old name" in printed.err
    assert main(["config"]) == ExitCode.OK
    assert "train.metrics  accuracy f1" in capsys.readouterr().out
