"""What can be said without a builder of Containerfile, and of the forms of issues."""

import re
import shlex
from pathlib import Path

import pytest

from odtc.cli.main import build_parser
from tests.wheels import MAPPED

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Containerfile").read_text()
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))


def copied() -> set[str]:
    """What the first stage takes out of the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.M)
    return {each for line in lines for each in line.split()}


def test_all_that_a_wheel_is_made_of_is_copied() -> None:
    files = {"pyproject.toml", "setup.py", "README.md", "LICENSE"}
    assert copied() == {"odtc", *MAPPED.values(), *files}
    assert all((ROOT / each).exists() for each in copied())


def test_each_stage_begins_with_one_python_that_odtc_runs_in() -> None:
    found = re.findall(r"^FROM \S+/python:3\.(\d+)-", TEXT, re.M)
    assert len(found) == 2
    assert len({*found}) == 1
    assert 11 <= int(found[0]) <= 13


def test_a_jdk_finds_the_folder_of_manual_pages_that_slim_images_lack() -> None:
    runs = TEXT.replace("\\\n", "").split("\nRUN ")
    (with_jdk,) = (each for each in runs if "jdk" in each.partition("\n")[0])
    assert with_jdk.startswith("mkdir -p /usr/share/man/man1 && apt-get ")


def test_it_is_run_as_the_user_who_calls_it_with_a_home_that_anyone_may_write_to() -> None:
    runs = re.findall(r'^#     (\w+) run .*--user (".*") -v .* odtc (.*)$', TEXT, re.M)
    assert [(engine, user) for engine, user, _ in runs] == [
        (engine, '"$(id -u):$(id -g)"') for engine in ("docker", "podman")
    ]
    for *_, words in runs:
        build_parser().parse_args(shlex.split(words))
    (home,) = re.findall(r"^ENV HOME=(\S+)$", TEXT, re.M)
    assert f"chmod 1777 {home}\n" in TEXT


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_the_commands_of_a_form_are_odtcs(form: Path) -> None:
    lines = re.findall(r"^    (odtc [a-z].*)$", form.read_text(), re.M)
    assert lines or form.stem == "bug"
    for line in lines:
        build_parser().parse_args(shlex.split(line)[1:])
