"""Commands on all pages can be given, also those that no test follows to their end.

The guides, the tutorial and the README are followed by tests of their own.
"""

import argparse
import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from odtc.cli.config.apply import take_options
from odtc.cli.main import build_parser
from odtc.cli.parser_tree import actions_of, command_in
from tests.pages.followed import DOCS

ROOT = DOCS.parent
# What a parser or a docstring writes has no commands of its own, and logs tell of what is gone.
WRITTEN = {DOCS / "api.md", DOCS / "cli.md", DOCS / "design/log.md", ROOT / "CHANGELOG.md"}
PAGES = [
    page
    for page in (
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *ROOT.glob("examples/*/README.md"),
        *ROOT.glob("logs/**/*.md"),
    )
    if page not in WRITTEN
]
# Pages of other tests, and those of design, which list parts of commands.
OTHERS = {DOCS / "howto", DOCS / "design"}
# A block of commands, indented or fenced, and code within a line.
_BLOCK = re.compile(r"^```sh\n(.*?)^```$|(?<=\n\n)((?:^    [^\n]*\n)+)", re.M | re.S)
_INLINE = re.compile(r"(?<!`)`([^`]+)`")
_COMMAND = re.compile(r"(?:odtc|python -m|make) \S.*")


def blocks(text: str) -> Iterator[list[str]]:
    """The words of each command in a block; what a shell does with its output is left out."""
    for fenced, indented in _BLOCK.findall(text):
        for line in (fenced or indented).replace("\\\n", " ").splitlines():
            if _COMMAND.fullmatch(line.strip()):
                yield shlex.split(re.sub(r" (>|&).*", "", line), comments=True)


def inline(text: str) -> Iterator[list[str]]:
    """The words of each command within a line, which may be a part of one."""
    for code in _INLINE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        if _COMMAND.fullmatch(code.replace("\n", " ")) and code.count("'") % 2 == 0:
            yield shlex.split(re.sub(r" (>|\||2>).*", "", code))


@cache
def parser() -> argparse.ArgumentParser:
    return build_parser()


@cache
def source_of(file: Path) -> str:
    """The source of a module, or of all modules of a package, and of options of all benchmarks."""
    files = file.parent.rglob("*.py") if file.name == "__init__.py" else [file]
    shared = (ROOT / "benchmarks" / name for name in ("options.py", "output.py"))
    return "\n".join(each.read_text() for each in (*files, *shared))


def known(words: list[str]) -> bool:
    """Whether a command and its options are there."""
    if words[0] == "make":
        return re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M) is not None
    given = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    if words[0] == "odtc":
        # `odtc config COMMAND` takes what the command does.
        path, leaf = command_in(parser(), [word for word in words[1:] if word != "config"])
        if not path and words[1] not in ("config", "COMMAND", *given):
            return False
        return given <= {name for action in actions_of(leaf) for name in action.option_strings}
    if words[2].split(".")[0] not in ("benchmarks", "odtc", "tests"):
        return True
    found = importlib.util.find_spec(words[2])
    if not found or not found.origin:
        return False
    return all(f'"{option}"' in source_of(Path(found.origin)) for option in given)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_there(page: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (*blocks(page.read_text()), *inline(page.read_text())):
        assert known(words), words


def test_a_command_that_is_not_there_is_found() -> None:
    text = "# Page\n\n    odtc trian x.odtc\n    make cake\n    python -m benchmarks.demo --fast\n"
    found = [*blocks(f"{text}    make demo  # it\n"), *inline("`odtc train --layers 3 | head`")]
    assert [known(words) for words in found] == [False, False, False, True, False]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not OTHERS & {*page.parents}], ids=name_of
)
def test_commands_of_odtc_can_be_given(page: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for program, *words in blocks(page.read_text()):
        if program == "odtc":
            with_options = build_parser()
            take_options(with_options, words)
            with_options.parse_args(words)
