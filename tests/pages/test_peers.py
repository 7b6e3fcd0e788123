"""docs/peers.md: the calls that it names are there, those of odtc and of onnxruntime."""

import argparse
import importlib
import inspect
import re
from functools import cache

import pytest

import odtc
from odtc.cli.main import build_parser
from odtc.cli.parser_tree import actions_of, command_in
from tests.pages.followed import DOCS

TEXT = (DOCS / "peers.md").read_text()
COLUMNS = ["odtc", "Lightning", "Keras", "ExecuTorch", "onnxruntime-training"]


def rows() -> list[list[str]]:
    """The cells of each row of the tables, without what it is about."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines]


def named(column: str) -> list[str]:
    """The code in the cells of a library."""
    cells = [row[COLUMNS.index(column)] for row in rows() if row != COLUMNS]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


@cache
def parser() -> argparse.ArgumentParser:
    return build_parser()


def test_every_row_has_a_cell_for_each():
    assert len(rows()) > 30
    assert {len(row) for row in rows()} == {len(COLUMNS)}


def test_no_cell_of_odtc_is_empty():
    """What two others have, odtc has, or the page says why not."""
    for row in rows():
        assert row[0] not in ("–", ""), row


@pytest.mark.parametrize("code", [c for c in named("odtc") if c.startswith("odtc ")])
def test_a_command_is_there(code: str):
    words = code.split()[1:]
    path, leaf = command_in(parser(), words)
    assert path, code
    known = {name for action in actions_of(leaf) for name in action.option_strings}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("code", [c for c in named("odtc") if not c.startswith("odtc ")])
def test_a_call_is_there(code: str):
    name, _, arguments = code.removesuffix(")").partition("(")
    found = odtc if name.startswith("odtc.") else odtc.Trainer
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    given = set(re.findall(r"(\w+)=", arguments))
    takes = set(inspect.signature(found).parameters)
    assert given <= takes
    positional = [each for each in arguments.split(",") if each.strip() and "=" not in each]
    assert len(positional) <= len(takes)


def test_calls_of_onnxruntime_are_there():
    training = {
        name: importlib.import_module(f"onnxruntime.training.{name}")
        for name in ("api", "artifacts", "onnxblock")
    }
    for code in named("onnxruntime-training"):
        name, _, arguments = code.partition("(")
        home, *parts = name.split(".") if "." in name else ("artifacts", name)
        found = training[home]
        for part in parts:
            found = getattr(found, part)
        if parts == ["generate_artifacts"]:
            takes = inspect.signature(found).parameters
            assert set(re.findall(r"(\w+)=", arguments)) <= set(takes)
