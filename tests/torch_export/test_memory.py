"""What an export takes beside the module: less than a second copy of its weights."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from odtc.frontend.weights.in_file import elements_in_files
from tests.fast import fast_if

# Of 100 MB of weights, an export takes so many times as much beside them: the first exporter leaves
# them where they are, and they are read to be run; the second writes them into a text of their own.
MOST = {"torch.export": 1.4, "TorchScript": 3.4}
EXPORT = """
import json, sys
import numpy, onnx, onnxruntime, onnxscript, torch
import odtc
from odtc.torch_export.exporters import EXPORTERS
from tests.native.test_resident import resident

path, exporter = sys.argv[1:]
EXPORTERS = [EXPORTERS.pop(name) for name in list(EXPORTERS) if name != exporter]


class Wide(torch.nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, bias=False) for _ in range(count)
        )
        self.register_buffer("table", torch.rand(width, 8))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x @ self.table


odtc.from_torch(Wide(32, 2), torch.zeros(2, 32), path)
module = Wide(1024, 24)
size = sum(each.nbytes for each in module.parameters())
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = resident("VmHWM")
exported = odtc.from_torch(module, torch.zeros(2, 1024), path)
print(json.dumps([exported.exporter, size, resident("VmHWM") - before]))
"""


@pytest.mark.parametrize("exporter", fast_if("torch.export".__eq__, MOST))
def test_weights_are_not_copied(exporter: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    command = [sys.executable, "-W", "ignore", "-c", EXPORT, str(path), exporter]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    name, size, more = json.loads(done.stdout)
    assert name == exporter
    assert more < MOST[exporter] * size
    # The file has all of them inside.
    onnx.checker.check_model(path)
    assert {each.path for each in elements_in_files(path)} == {path}
    assert path.stat().st_size > size
