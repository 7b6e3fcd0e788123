"""The user's compilers, as the environment names them."""

from collections.abc import Callable

import pytest

from odtc.core.errors import UsageError
from odtc.core.process.cxx import cc_command, cxx_command

BOTH = pytest.mark.parametrize(("variable", "command"), [("CC", cc_command), ("CXX", cxx_command)])
Command = Callable[[], list[str]]


@BOTH
def test_a_compiler_with_options(
    variable: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "env -i 'a b'")
    assert command() == ["env", "-i", "a b"]


@BOTH
def test_one_that_is_not_there_is_passed_over(
    variable: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    usual = command()
    monkeypatch.setenv(variable, "no-such-compiler -O2")
    assert command() == usual


@BOTH
def test_what_is_no_command_is_said(
    variable: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "'gcc -O2")
    with pytest.raises(UsageError) as caught:
        command()
    assert str(caught.value).startswith(
        f'the environment variable {variable} is "\'gcc -O2", which is not a command: No closing'
    )
