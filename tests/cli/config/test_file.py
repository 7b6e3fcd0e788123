"""Where an options file is found, and which are not read."""

import os
from pathlib import Path

import pytest

from odtc.cli.config.file import find, read
from odtc.cli.config.lines import lines_of
from odtc.core.disk.file_limits import MOST_CONFIG_BYTES
from odtc.core.errors import UsageError

TRAIN = "[train]\nlr = 0.1\n"


def test_the_nearest_folder_above_has_it(tmp_path: Path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find(below).file is None
    (tmp_path / "odtc.toml").write_text(TRAIN)
    found = find(below).file
    assert found
    assert (found.path, dict(found.table)) == (tmp_path / "odtc.toml", {"train": {"lr": 0.1}})
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.odtc.train]\nlr = 0.2\n")
    found = find(below).file
    assert found
    assert (found.root, dict(found.table)) == (("tool", "odtc"), {"train": {"lr": 0.2}})


def test_a_project_of_another_is_passed_over(tmp_path: Path):
    (tmp_path / "odtc.toml").write_text(TRAIN)
    below = tmp_path / "a"
    below.mkdir()
    for other in ("[tool.ruff]\n", "no TOML [", '[project]\nname = "odtc"\n'):
        (below / "pyproject.toml").write_text(other)
        found = find(below)
        assert found.file
        assert found.file.path == tmp_path / "odtc.toml"
        assert not found.notes


def test_of_two_in_a_folder_one_is_named(tmp_path: Path):
    (tmp_path / "odtc.toml").write_text(TRAIN)
    (tmp_path / "pyproject.toml").write_text("[tool.odtc.train]\nlr = 0.2\n")
    found = find(tmp_path)
    assert found.file
    assert found.file.path.name == "odtc.toml"
    assert found.notes == (
        f"[tool.odtc] of {tmp_path / 'pyproject.toml'} is not read: odtc.toml is next to it",
    )


def test_what_others_may_write_is_told_and_not_read(tmp_path: Path, monkeypatch):
    path = tmp_path / "odtc.toml"
    path.write_text(TRAIN)
    path.chmod(0o666)
    found = find(tmp_path)
    assert found.file is None
    assert found.notes == (f"{path} belongs to another user and is not read; --config reads it",)
    path.chmod(0o644)
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
        assert find(tmp_path).file is None
    assert read(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"[train\n", "cannot read the options: Expected ']' at the end of a table declaration"),
        (b"[train]\nlr = 1\nlr = 2\n", "cannot read the options: Cannot overwrite a value"),
        (b"x = '\xff'\n", "cannot read the options: it is not UTF-8 at byte 5"),
        (b"x = " + b"[" * 30_000, "cannot read the options: it is nested too deeply"),
        (b"#" * (MOST_CONFIG_BYTES + 1), "the file has more than 65,536 bytes"),
    ],
    ids=["table", "twice", "bytes", "deep", "large"],
)
def test_what_is_no_file_of_options(content: bytes, what: str, tmp_path: Path):
    path = tmp_path / "odtc.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read(path)
    assert error.value.what.startswith(what)
    assert error.value.where == str(path)
    assert error.value.hint == "--no-config leaves the file out"


def test_lines_of_statements():
    text = (
        "# x = 1\r\n"
        'a.b = 1\n[t.u] # c\nlist = [\n  "y = 2",\n  "[z]",\n]\n'
        'text = """\nq = 3\n"""\ninline = { k = { l = 1 } }\n\n["m.n"."o p"]\nlast = 1'
    )
    assert lines_of(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("t",): 3,
        ("t", "u"): 3,
        ("t", "u", "list"): 4,
        ("t", "u", "text"): 8,
        ("t", "u", "inline"): 11,
        ("t", "u", "inline", "k"): 11,
        ("t", "u", "inline", "k", "l"): 11,
        ("m.n",): 13,
        ("m.n", "o p"): 13,
        ("m.n", "o p", "last"): 14,
    }
