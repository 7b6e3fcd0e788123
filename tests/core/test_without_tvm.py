"""Without the packages of `odtc[compile]`: an artifact runs, all else says what it lacks.

In processes that cannot import them; `tests/test_packaging.py` has an environment without them.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from odtc.cli.main import build_parser
from odtc.core.errors import ExitCode
from odtc.core.process.missing_packages import COMPILE, PACKAGES, missing_package
from odtc.runtime_rpc.native.wheel import write_runtime
from tests.numeric.mlp import batches, mlp_artifact

ROOT = Path(__file__).parents[2]
BLOCKED = """
import contextlib, io, json, sys
from pathlib import Path

for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
import odtc
from odtc.cli.main import main
from odtc.runtime_rpc.native import build

build.PREBUILT = Path().absolute()
said = {}
"""
OF_COMMANDS = """
for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stderr(io.StringIO()) as error:
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(words.split())
    said[words] = [code, error.getvalue()]
print(json.dumps(said))
"""
OF_NAMES = """
def tried(work):
    try:
        work()
        return ""
    except odtc.OdtcError as error:
        return f"{type(error).__name__}: {error}"

artifact = odtc.load("m.odtc")
said |= {name: tried(lambda: getattr(odtc, name)) for name in dir(odtc)}
said["compile()"] = tried(lambda: odtc.compile("m.onnx", batch=8))
said["plan()"] = tried(lambda: odtc.plan("m.onnx", batch=8))
said["connect()"] = tried(lambda: odtc.connect("rpc://127.0.0.1:9190/key"))
said["adb"] = tried(lambda: odtc.connect("adb://serial"))
said["trainer"] = tried(lambda: artifact.trainer("rpc://127.0.0.1:9190/key"))
said["here"] = tried(lambda: odtc.connect().close())
print(json.dumps(said))
"""

# Exit codes: of what works, of what is told of other mistakes before, and of what is missing.
TVM, OK = ExitCode.MISSING, ExitCode.OK
COMMANDS = {
    "compile m.onnx -o n.odtc": TVM,
    "train m.odtc --data m.npz --steps 2 --lr 0.1 --checkpoint m.ckpt --export trained.onnx": OK,
    "train m.odtc --data t.jsonl --tokenizer t.json --steps 2 --lr 0.1": ExitCode.MISSING,
    "train m.odtc --data m.npz --steps 2 --lr 0.1 --device rpc://127.0.0.1:9190/key": TVM,
    "predict m.odtc --data m.npz -o scores.npy": OK,
    "generate m.onnx --tokenizer t.json --prompt x": ExitCode.MISSING,
    "inspect m.odtc --json": OK,
    "check m.onnx": TVM,
    "init m.onnx --data m.npz --target host-cpu": TVM,
    "config": OK,
    "completion bash": OK,
    "export builtins:int -o n.onnx": ExitCode.MISSING,
    "export-app m.odtc --platform linux -o app": OK,
    "adapt m.onnx --classes 3 -o adapted.onnx": OK,
    "plan m.onnx --batch 8": TVM,
    "profile m.odtc --steps 2": OK,
    "sweep m.odtc --rounds 1 --steps 1 --threads 1": OK,
    "sweep m.onnx --batch 8 --rounds 1 --steps 1 --threads 1 -o rows.jsonl": TVM,
    "tune m.onnx": TVM,
    "db list": OK,
    "db merge records.jsonl": OK,
    "db export kept.jsonl": OK,
    "db prune": OK,
    "compare m.onnx": ExitCode.MISSING,
    "bench --suite none": ExitCode.USAGE,
    "bench --suite suite.toml": TVM,
    "report none.jsonl": ExitCode.DATA,
    "pack buffers.csv -o plan.csv": OK,
    "targets": OK,
    "opt m.onnx": TVM,
    "cache": OK,
    "devices": OK,
    "device setup serial": ExitCode.DEVICE,
    "device stop serial": ExitCode.DEVICE,
    "device doctor serial": ExitCode.DEVICE,
    "device shell serial": ExitCode.DEVICE,
    "device build": ExitCode.BUILD,
}
# One line for what is missing, and one for the command that installs it.
MISSING = re.compile(
    r"(the package [\w-]+|PyTorch) is not installed[,;] .*\n(  where: .*\n)?"
    r"  hint: (run `)?pip install ('odtc\[(compile|data)\]'|torch onnxscript)`?$",
    re.MULTILINE,
)
OF_THE_STANDIN = """
from odtc.runtime_rpc.standin.__main__ import main as standin

with contextlib.redirect_stderr(io.StringIO()):
    print(json.dumps({words: standin([words]) for words in ("build", "serve")}))
"""
NEEDING = {"compile()", "plan()", "connect()", "adb", "trainer"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a model, an artifact, data, and the native runtime as a wheel has it."""
    made = tmp_path_factory.mktemp("without")
    mlp_artifact(made, odtc.SGD()).save(made / "m.odtc")
    (made / "mlp.onnx").rename(made / "m.onnx")
    (x, y), *_ = batches(1)
    np.savez(made / "m.npz", x=x, y=y)
    (made / "buffers.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,64\n")
    (made / "records.jsonl").write_text("")
    (made / "suite.toml").write_text(
        'title = "x"\nmake = ["m"]\nroot = "."\nbatches = [1]\nmodels = ["m"]\n'
    )
    write_runtime(made / "libodtc.so")
    return made


def said(folder: Path, code: str, *words: str) -> dict[str, Any]:
    """What a process without the packages, and without programs, prints."""
    command = [sys.executable, "-c", BLOCKED + code, json.dumps([*PACKAGES]), *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"HOME": str(folder), "PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_each_command_works_or_says_what_is_missing(folder: Path) -> None:
    found = said(folder, OF_COMMANDS, json.dumps([*COMMANDS]))
    wrong = {words: each for words, each in found.items() if each[0] != COMMANDS[words]}
    assert not wrong
    for words, (code, text) in found.items():
        if code == ExitCode.MISSING:
            assert MISSING.search(text), (words, text)
    # A package that is missing is no result, which a later run would not measure again.
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 1
    assert not [each for each in ("m.jsonl", "suite.jsonl") if (folder / each).exists()]


def test_every_command_is_tried() -> None:
    def actions(parser: argparse.ArgumentParser, name: str) -> set[str]:
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        named = [(key, each) for action in below for key, each in action.choices.items()]
        return {n for key, each in named for n in actions(each, f"{name} {key}")} or {name}

    assert {"odtc device doctor", "odtc compile", "odtc targets"} <= actions(build_parser(), "odtc")
    for name in actions(build_parser(), "odtc"):
        assert any(f"odtc {words} ".startswith(f"{name} ") for words in COMMANDS), name


def test_each_name_works_or_says_what_is_missing(folder: Path) -> None:
    found = said(folder, OF_NAMES)
    assert len(found) == len(dir(odtc)) + len(NEEDING) + 1
    assert {name for name, text in found.items() if text} == NEEDING
    assert all(MISSING.search(found[name]) for name in NEEDING), found
    for name in ("compile", "plan", "connect"):
        assert f"where: odtc.{name}\n" in found[f"{name}()"]


def test_the_emulated_phone_says_what_is_missing(folder: Path) -> None:
    assert said(folder, OF_THE_STANDIN) == dict.fromkeys(("build", "serve"), ExitCode.MISSING)


def test_the_table_has_each_package_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["compile"]
    names = {re.match(r"[\w-]+", each)[0] for each in extra}
    assert names == {name for name, command in PACKAGES.values() if command == COMPILE}
    for name, (package, _) in PACKAGES.items():
        assert find_spec(name)
        assert version(package)


def test_another_module_is_a_fault_of_odtc() -> None:
    assert missing_package(ModuleNotFoundError("No module named 'x'", name="x")) is None
    assert missing_package(ModuleNotFoundError("it is not there")) is None
