"""What a compile takes for the weights of a model: a few of them at a time, and not all."""

import json
import subprocess
import sys
from pathlib import Path

COMPILE = """
import json, sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import odtc
from tests.native.test_resident import resident


def written(path, width, count):
    rng = np.random.default_rng(0)
    made = [rng.standard_normal((width, width), np.float32) / width for _ in range(count)]
    names = ["x", *(f"h{n}" for n in range(count - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [before, f"w{n}"], [after])
        for n, (before, after) in enumerate(zip(names, names[1:]))
    ]
    value = [helper.make_tensor_value_info(name, 1, [4, width]) for name in ("x", "y")]
    weights = [numpy_helper.from_array(each, f"w{n}") for n, each in enumerate(made)]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path)
    return path


def compiled(path):
    lora = odtc.LoRA(rank=2, targets="w0")
    return odtc.compile(path, loss="mse", lora=lora, train=[])


folder = Path(sys.argv[1])
compiled(written(folder / "small.onnx", 32, 2))
written(folder / "large.onnx", 2048, 6)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = resident("VmHWM")
artifact = compiled(folder / "large.onnx")
more = resident("VmHWM") - before
artifact.save(folder / "m.odtc")
print(json.dumps([more, artifact.manifest.sizes.parameters]))
"""
# One of six is looked at at a time, and kernels are compiled.
MOST = 0.7


def test_weights_are_not_in_memory_all_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    more, size = json.loads(done.stdout.splitlines()[-1])
    assert size > 6 * 2048 * 2048 * 4
    assert more < MOST * size, more / size
