"""Where TVM is not installed, what needs it says so, as an error of odtc's own."""

import json
import subprocess
import sys
from pathlib import Path

import onnx

from tests.numeric.mlp import mlp_model

SAID = """
import contextlib, io, json, sys

sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
import odtc
from odtc.cli.main import main

model = sys.argv[1]
said = {}


def tried(name, work):
    try:
        said[name] = repr(work())
    except odtc.OdtcError as error:
        said[name] = f"{type(error).__name__}: {error}"


tried("odtc.compile", lambda: odtc.compile(model, batch=8))
tried("odtc.plan", lambda: odtc.plan(model, batch=8))
tried("odtc.connect", lambda: odtc.connect("127.0.0.1:9190"))
for command in (["compile", model, "-o", model + ".odtc"], ["check", model], ["plan", model],
                ["sweep", model], ["opt", model], ["devices"]):
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        code = main(command)
    said[command[0]] = f"{code} {printed.getvalue()}"
print(json.dumps(said))
"""


def test_what_needs_tvm_says_so(tmp_path: Path) -> None:
    onnx.save(mlp_model(), path := tmp_path / "m.onnx")
    command = [sys.executable, "-c", SAID, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said) == 9
    for name, text in said.items():
        begin = "UnsupportedError: " if name.startswith("odtc.") else "4 "
        assert text.startswith(begin), (name, text)
        assert "TVM is not installed, and this needs it\n" in text, (name, text)
        assert "hint: install apache-tvm; " in text, (name, text)
        assert "internal error" not in text, (name, text)
        if name.startswith("odtc."):
            assert f"where: {name}\n" in text
