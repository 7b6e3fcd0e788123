"""The pages of docs/howto: every command is one of odtc's, and does what its page says.

So do the commands of README.md, and the first of two other pages.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odtc.cli.config.apply import take_options
from odtc.cli.main import build_parser, main
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.pages.followed import DOCS, commands, follow

PAGES = sorted((DOCS / "howto").glob("*.md"))
# What compiles little is followed by the fast tests; all others take longer, or need a phone.
QUICK = ("adapt", "check", "config", "train", "python", "profile", "pack", "opt", "tables")
PHONE = ("devices", "measure_phone", "tune_phone")
SLOW = [page.stem for page in PAGES if page.stem not in (*QUICK, *PHONE)]
_LINK = re.compile(r"\]\(([^)#\s]+\.(?:md|sh))(?:#[^)]*)?\)")


def text_of(page: str) -> str:
    return (DOCS / "howto" / f"{page}.md").read_text()


@pytest.mark.parametrize("page", [page.stem for page in PAGES])
def test_every_command_is_one_of_odtcs(page: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(commands(text_of(page)))
    assert found
    for program, *words in found:
        if program == "odtc":
            parser = build_parser()
            take_options(parser, words)
            parser.parse_args(words)


def test_every_command_of_odtc_has_a_page() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    known = re.findall(r"^## odtc (\S+)$", (DOCS / "cli.md").read_text(), re.M)
    assert len(known) >= 16
    assert not [name for name in known if f"odtc {name} " not in text.replace("\n", " ")]


def test_the_index_has_every_page_and_no_other() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in _LINK.findall(index.read_text())}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {index.resolve()}
    assert pages <= linked
    assert not [link for link in linked if not link.is_file()]


@pytest.mark.parametrize("page", [page.stem for page in PAGES])
def test_links_lead_somewhere(page: str) -> None:
    links = _LINK.findall(text_of(page))
    assert not [link for link in links if not (DOCS / "howto" / link).is_file()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, the data, and the artifact that the first pages make."""
    folder = tmp_path_factory.mktemp("howto")
    data = ["--data", folder / "train.npz", "--eval-data", folder / "test.npz"]
    program = [sys.executable, "-m", "benchmarks.models.digits", "-o", folder / "digits.onnx"]
    subprocess.run([*program, *data], cwd=DOCS.parent, check=True, timeout=300)
    _, *first = next(commands(text_of("compile")))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(first) == 0
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize(
    "page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in SLOW)]
)
def test_a_page_does_what_it_says(page: str, here: Path) -> None:
    follow(text_of(page))


def commands_of_readme(here: Path, serial: str = "SERIAL") -> list[list[str]]:
    """Those of the command line, for a model of the digits."""
    shutil.copy(here / "digits.onnx", here / "model.onnx")
    text = (DOCS.parent / "README.md").read_text().replace("SERIAL", serial)
    lines = re.findall(r"^    odtc (.*)$", text, re.M)
    return [shlex.split(line, comments=True) for line in lines]


def test_readme_does_what_it_says(here: Path) -> None:
    found = commands_of_readme(here)
    assert len(found) == 6
    for words in found:
        if words[0] != "device" and "--device" not in words:
            assert main(words) == 0, words
    assert (here / "libs" / "phone.aar").is_file()


def test_the_page_of_memory_does_what_it_says(here: Path) -> None:
    follow((DOCS / "memory.md").read_text())


@pytest.mark.device
@pytest.mark.slow
def test_readme_and_the_page_of_phones_do_so_with_a_phone(here: Path, phone: AdbPhone) -> None:
    (train,) = (each for each in commands_of_readme(here, phone.serial) if "--device" in each)
    follow((DOCS / "phones.md").read_text(), phone.serial)
    assert main(["device", "setup", phone.serial]) == 0
    assert main(train) == 0


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("page", PHONE)
def test_a_page_does_so_with_a_phone(page: str, here: Path, phone: AdbPhone) -> None:
    follow(text_of(page), phone.serial)
