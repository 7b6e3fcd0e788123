"""Options that are on or off have both names, `--x` and `--no-x`, of which the last one counts."""

import argparse
from pathlib import Path

import pytest

from odtc.cli.config.sections import configured
from odtc.cli.main import build_parser, main
from odtc.cli.parser_tree import actions_of, leaves_of
from odtc.cli.switches import Switch
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits

# What turns these off is another option: --lr, --no-resume; the last is no option of a file.
OTHERS = {"--find-lr", "--resume-anyway", "--no-config", "--help"}


def test_every_option_without_words_can_be_turned_off():
    for leaf in configured(build_parser()).values():
        for action in actions_of(leaf):
            if action.nargs == 0 and not OTHERS & {*action.option_strings}:
                assert isinstance(action, Switch), action.option_strings


def test_no_two_options_have_a_name_in_common_and_none_is_negative_twice():
    for _, leaf in leaves_of(build_parser()):
        names = [name for action in actions_of(leaf) for name in action.option_strings]
        assert len(names) == len({*names})
        assert not [name for name in names if name.startswith("--no-no-")]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("", "stands"),
        ("--x", "on"),
        ("--no-x", "off"),
        ("--x --no-x", "off"),
        ("--no-x --x", "on"),
    ],
)
def test_the_last_one_counts(words: str, value: str):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", action=Switch, on="on", off="off", stands="stands")
    assert parser.parse_args(words.split()).x == value


def test_help_has_both_names_as_one(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "--help"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "[--[no-]resume | --resume-anyway]" in said
    assert "\n  --[no-]ema  " in said
    assert "--no-ema" not in said


def test_a_switch_of_the_file_is_turned_off_by_a_word(digits: Digits, here: Path, capsys):
    (here / "odtc.toml").write_text("[train]\njson = true\nresume = true\ncheckpoint = 'a.ckpt'\n")
    words = ["train", str(digits.artifact), "--data", str(digits.train), "--lr", "0.05"]
    assert main([*words, "--steps", "2", "--no-resume"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out.startswith("{")
    assert "begins anew" not in printed.err  # it is told where a run is to go on from nothing
    assert "options of odtc.toml: --json --checkpoint a.ckpt" in printed.err
    assert main([*words, "--steps", "4", "--no-json"]) == ExitCode.OK
    printed = capsys.readouterr()
    assert not printed.out.startswith("{")
    assert "resumed from a.ckpt at step 2 of 4" in printed.err


def test_what_is_turned_off_takes_no_others_place(digits: Digits, here: Path, capsys):
    (here / "odtc.toml").write_text("[train]\nmemory-budget = '1GiB'\nmerge = false\n")
    words = ["train", str(digits.artifact), "--data", str(digits.train), "--lr", "0.05"]
    assert main(["config", *words, "--no-follow-memory", "--no-json"]) == ExitCode.OK
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert ["memory-budget", "1GiB"] in lines
    assert [each for each in lines if each[0].startswith("no-")] == [
        ["no-follow-memory", "true"],
        ["no-json", "true"],
        ["no-merge", "true"],
    ]
