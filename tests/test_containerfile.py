"""What can be said without a builder of Containerfile, and of the forms of issues."""

import re
import shlex
from pathlib import Path

import pytest

from odtc.cli.main import build_parser
from tests.wheels import MAPPED

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))


def copied() -> set[str]:
    """What the first stage takes out of the repository."""
    text = (ROOT / "Containerfile").read_text()
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M)
    return {each for line in lines for each in line.split()}


def test_all_that_a_wheel_is_made_of_is_copied() -> None:
    files = {"pyproject.toml", "setup.py", "README.md", "LICENSE"}
    assert copied() == {"odtc", *MAPPED.values(), *files}
    assert all((ROOT / each).exists() for each in copied())


def test_each_stage_begins_with_one_python_that_odtc_runs_in() -> None:
    found = re.findall(r"^FROM \S+/python:3\.(\d+)-", (ROOT / "Containerfile").read_text(), re.M)
    assert len(found) == 2
    assert len({*found}) == 1
    assert 11 <= int(found[0]) <= 13


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_the_commands_of_a_form_are_odtcs(form: Path) -> None:
    lines = re.findall(r"^    (odtc [a-z].*)$", form.read_text(), re.M)
    assert lines or form.stem == "bug"
    for line in lines:
        build_parser().parse_args(shlex.split(line)[1:])
