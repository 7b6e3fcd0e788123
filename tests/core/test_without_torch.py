"""A command imports TVM without PyTorch; one that wants PyTorch has it all the same."""

import subprocess
import sys
from pathlib import Path

import onnx

from benchmarks.models.digits import digits_model

ASK = """
import sys
from odtc.cli.main import main
assert main({arguments!r}) == 0
assert "tvm" in sys.modules
assert sys.modules.get("torch") is None, "torch"
import torch
import tvm.relax
assert float(torch.ones(2).sum()) == 2
"""
MODULE = """
import torch
def make():
    return torch.nn.Linear(3, 2), torch.zeros(4, 3)
"""


def run(code: str, folder: Path) -> None:
    path = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, env={"PYTHONPATH": path, "HOME": path}
    )


def test_a_check_needs_no_torch(tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    run(ASK.format(arguments=["check", "m.onnx"]), tmp_path)


def test_an_export_has_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODULE)
    arguments = ["export", "net.py:make", "-o", "m.onnx"]
    run(f"from odtc.cli.main import main; assert main({arguments!r}) == 0", tmp_path)
    assert (tmp_path / "m.onnx").exists()


def test_where_it_is_there_already_nothing_is_hidden(tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    code = (
        "import sys, torch; from odtc.cli.main import main; assert main(['check', 'm.onnx']) == 0"
    )
    run(f"{code}; assert sys.modules['torch'] is torch", tmp_path)
