"""An option of a step is said once: signatures, flags, checks and the cache follow the table."""

import argparse
import inspect
from dataclasses import replace
from typing import Any

import pytest

import odtc
from odtc.cli.compiling.step_options import _READERS, add_step_options, step_options
from odtc.core.errors import UsageError
from odtc.core.options.kinds import MisfitError
from odtc.driver.options.option import Form, Option, arguments_of, kinds_of, options_of
from odtc.driver.options.step_options import StepOptions

OPTIONS = {each.name: each for each in options_of(StepOptions)}
# Those without a flag of their own: an optimizer has several, commands find a device themselves.
WITHOUT_FLAG = {"optimizer", "device"}
# Words after the flag of each form, and the value that they give.
WORDS: dict[Form, tuple[list[str], Any]] = {
    Form.TEXT: (["mixed"], "mixed"),
    Form.WHOLE: (["3"], 3),
    Form.COUNT: (["2"], 2),
    Form.COUNTS: (["1", "8"], [1, 8]),
    Form.SWITCH: ([], True),
    Form.TEXTS: (["a*", "b*"], ["a*", "b*"]),
    Form.SIZES: (["n=3", "x=2x4"], {"n": 3, "x": (2, 4)}),
    Form.AXES: (["x=1", "y=none"], {"x": 1, "y": None}),
    Form.VALUES: (["k=2", "m=1,2"], {"k": 2, "m": [1, 2]}),
    Form.ADAPTERS: (["rank=2"], odtc.LoRA(rank=2)),
    Form.NORMALIZATION: (["mean=0.5,std=0.25"], odtc.Normalize(0.5, 0.25)),
}


def read(*words: str) -> StepOptions:
    """Parses words as the command line does."""
    parser = argparse.ArgumentParser()
    add_step_options(parser)
    return step_options(parser.parse_args(["m.onnx", *words]))


@pytest.mark.parametrize("function", [odtc.compile, odtc.plan])
def test_public_functions_take_every_option(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert [name for name in parameters if name in OPTIONS] == [*OPTIONS]
    for name, option in OPTIONS.items():
        assert parameters[name].default == option.default
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    for name in parameters:
        assert f"\n    {name}: " in (inspect.getdoc(function) or "")


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_the_default_is_of_its_kind(option: Option) -> None:
    assert option.kind.read(option.default, option.name) == option.default
    assert option.docs.endswith(".")


def test_what_is_of_no_kind_is_found() -> None:
    with pytest.raises(MisfitError):
        kinds_of(StepOptions)["lora"].read(3, "lora")


def test_every_form_has_a_reader() -> None:
    assert _READERS.keys() == {*Form}
    assert WORDS.keys() | {Form.LOSSES} == {*Form}


def test_what_is_not_given_has_the_default_of_the_table() -> None:
    assert replace(read(), optimizer=None) == StepOptions()


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - WITHOUT_FLAG - {"loss"}))
def test_a_flag_gives_its_option_alone(name: str) -> None:
    flag = OPTIONS[name].flag
    assert flag
    words, value = WORDS[flag.form]
    # That of a switch that is on turns it off.
    is_on = OPTIONS[name].default is True
    value = value is not is_on if flag.form is Form.SWITCH else value
    found = read(f"--no-{name}" if is_on else flag.name, *words)
    assert replace(found, optimizer=None) == StepOptions(**{name: value})
    assert arguments_of(found)[name] != OPTIONS[name].default


def test_losses_are_read_from_their_flag() -> None:
    (first, second) = read("--loss", "a=mse", "b=0.5*l1").loss
    assert (str(first.output), second.weight) == ("a", 0.5)


def test_only_two_options_have_no_flag_of_their_own() -> None:
    assert {name for name, each in OPTIONS.items() if not each.flag} == WITHOUT_FLAG
    flags = [each.flag.name for each in OPTIONS.values() if each.flag]
    assert len({*flags}) == len(flags)


def test_adapters_of_no_text_are_an_error() -> None:
    with pytest.raises(UsageError, match="cannot read the adapters ''"):
        read("--lora", "")
