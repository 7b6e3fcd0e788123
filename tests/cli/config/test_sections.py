"""Names and values of an options file, checked against the options of the commands."""

import argparse
import json
import shlex
from pathlib import Path

import pytest

from odtc.cli.config.file import read
from odtc.cli.config.sections import Sections, configurable
from odtc.cli.config.values import is_of_files
from odtc.cli.main import build_parser
from odtc.cli.model.inspect import picture
from odtc.cli.options import output_file
from odtc.cli.parser_tree import leaves_of
from odtc.core.errors import UsageError


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return build_parser()


def sections(parser: argparse.ArgumentParser, folder: Path, text: str) -> Sections:
    path = folder / "odtc.toml"
    path.write_text(text)
    file = read(path)
    assert file
    return Sections(file, parser)


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (
            "[train]\nlr = 1\nephocs = 3",
            3,
            "odtc train has no option 'ephocs'",
            "did you mean epochs? `odtc train --help` shows what is available",
        ),
        ("[trian]", 1, "there is no command 'trian'", "did you mean train? there are adapt, "),
        (
            "[compile]\nclip_norm = 1",
            2,
            "odtc compile has no option 'clip_norm'",
            "did you mean clip-norm? ",
        ),
        (
            "patience = 3",
            1,
            "there is no command 'patience'",
            "it is an option of odtc train: write it below [train]",
        ),
        ("train = 3", 1, "'train' is a table, not a value", "write [train] with options below"),
        ("[device.setpu]", 1, "odtc device has no command 'setpu'", "did you mean setup? it has "),
        (
            "[target.android-opnecl.compile]\nbatch = 1",
            1,
            "unknown target 'android-opnecl'",
            "did you mean android-opencl? ",
        ),
        (
            "[target.host-cpu.compile]\ntarget = 'host-cpu'",
            2,
            "a table for a target chooses no target",
            "leave it out",
        ),
        ("[model.a.trian]", 1, "there is no command 'trian'", "did you mean train? "),
        (
            "[compare]\nmodule = 'x.py:make'",
            2,
            "'module' is given on the command line only",
            "--no-config leaves the file out",
        ),
        (
            "[export]\nsource = 'x.py:make'",
            2,
            "'source' is given on the command line only",
            "--no-config leaves the file out",
        ),
        ("[config]", 1, "there is no command 'config'", ""),
    ],
)
def test_names(parser, tmp_path: Path, monkeypatch, text: str, line: int, what: str, hint: str):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        sections(parser, tmp_path, text)
    assert error.value.what == what
    assert error.value.where == f"odtc.toml, line {line}"
    assert str(error.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("command", "line", "said"),
    [
        ("compile", "batch = 'x'", "batch = 'x': invalid int value: 'x'"),
        ("compile", "batch = true", "batch = true: it takes a string or a number, not true"),
        ("compile", "batch = [1, 2]", "batch = [1, 2]: it takes one value, not a list"),
        ("compile", "eval-batch = [1, 0]", "eval-batch = [1, 0]: '0' is not a whole number of at"),
        ("compile", "train = []", "train = []: the list is empty: leave the option out"),
        ("compile", "optimizer = ''", "optimizer = '': it takes a string that is not empty"),
        ("compile", "offload = 1", "offload = 1: it is on or off: give true or false"),
        ("compile", "seed = 1979-05-27", "seed = datetime.date(1979, 5, 27): it takes a string or"),
        ("compile", "optimizer = {name = 'sgd'}", "optimizer = {'name': 'sgd'}: it takes a string"),
        (
            "compile",
            "shape = {N = 'x'}",
            "shape = {'N': 'x'}: 'N=x' is not the size of a dimension",
        ),
        ("compile", "on-nonfinite = 'sip'", "on-nonfinite = 'sip': invalid choice: 'sip' (choose"),
        ("compile", "output = 'a/'", "output = 'a/': 'a/' names a folder, not a file"),
        ("train", "cores = 'tiny'", "cores = 'tiny': cores 'tiny' is unknown: give big, little"),
    ],
)
def test_values_that_are_none(
    parser, tmp_path: Path, monkeypatch, command: str, line: str, said: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        sections(parser, tmp_path, f"[{command}]\n{line}")
    assert error.value.what.startswith(said)
    assert str(error.value.where).endswith("odtc.toml, line 2")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("compile", "--batch 8"),
        ("compile", "--eval-batch 1 2"),
        ("compile", "--train 'fc*' bias"),
        ("compile", "--loss cross-entropy{label-smoothing=0.1}"),
        ("compile", "--shape N=3 x=2x3"),
        ("compile", "--set a=1 b=true c=1,2"),
        ("compile", "--batch-axis y=none"),
        ("compile", "--no-dropout"),
        ("compile", "--dropout"),
        ("compile", "--no-offload"),
        ("compile", "--clip-norm 0.5"),
        ("compile", "--print-ir-after fuse"),
        ("train", "--lr 1e-3"),
        ("train", "--resume"),
        ("train", "--no-resume"),
        ("train", "--no-merge"),
        ("train", "--metrics accuracy f1"),
        ("train", "--data x.npz"),
        ("tune", "--time 10m"),
        ("tune", "--cooldown"),
        ("tune", "--part 1/2"),
        ("compare", "--threads 1,2"),
        ("compare", "--with pytorch,tvm"),
        ("sweep", "--threads 1 2"),
    ],
)
def test_a_value_is_what_its_words_are(parser, tmp_path: Path, monkeypatch, table: str, words: str):
    """Of each form of options: the file gives what the command line gives."""
    monkeypatch.chdir(tmp_path)
    name, *rest = shlex.split(words)
    leaf = dict(leaves_of(parser))[(table,)]
    needed = ["a.onnx"] if table != "train" else ["a.odtc", "--data", "x.npz", "--lr", "1e-3"]
    given = leaf.parse_args([*needed, name, *rest])
    text = json.dumps((rest if len(rest) > 1 else rest[0]) if rest else True)
    found = sections(parser, tmp_path, f"[{table}]\n{name.removeprefix('--')} = {text}\n")
    (setting,) = found.all[0].settings
    assert setting.value == getattr(given, setting.action.dest)
    assert list(setting.words) == rest


def test_numbers_tables_and_lists_are_values_too(parser, tmp_path: Path):
    text = (
        "[compile]\nbatch = 8\neval-batch = [1, 2]\nshape = { N = 3 }\n"
        "set = { b = true, c = [1, 2.5] }\n[compare]\nthreads = [1, 2]\n"
    )
    one, other = sections(parser, tmp_path, text).all
    assert [each.value for each in one.settings] == [
        8,
        [1, 2],
        [("N", 3)],
        [("b", True), ("c", [1, 2.5])],
    ]
    assert [each.value for each in other.settings] == [[1, 2]]


def test_files_are_those_beside_the_file(parser, tmp_path: Path, monkeypatch):
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    (tmp_path / "loss.onnx").touch()
    text = (
        "[compile]\nmodel = 'a.onnx'\nloss = 'loss.onnx'\ndatabase = 'd.jsonl'\n"
        "optimizer = 'sgd'\nlayout = 'native'\n[train]\ndata = 'x'\nstorage = 'on/device'\n"
    )
    values = [each.value for part in sections(parser, tmp_path, text).all for each in part.settings]
    assert values == [
        "../a.onnx",
        ["../loss.onnx"],
        "../d.jsonl",
        "sgd",
        "native",
        Path("../x"),
        "on/device",
    ]


def test_what_is_read_as_a_path_is_one(parser):
    """A name in the file is relative to its folder, whichever option it is of."""
    kinds = (Path, output_file, picture)
    for path, leaf in leaves_of(parser):
        actions = [each for each in leaf._actions if each.type in kinds]
        assert all(is_of_files(each) for each in actions), path


def test_every_option_has_a_name_of_its_own(parser):
    """A file can give each option of each command."""
    for path, leaf in leaves_of(parser):
        actions = [each for each in leaf._actions if each.dest not in ("help", "config")]
        names = configurable(leaf)
        missing = {each.dest for each in actions} - {each.dest for each in names.values()}
        assert missing <= {"no_config", "module", "source"}, path
