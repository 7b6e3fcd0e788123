"""Khronos' validation layer has nothing to say of what the runtime asks Vulkan for."""

import re
from pathlib import Path

import pytest

from odtc.runtime_rpc.native.build import GPUS, runtime_library
from tests.native.test_parity import UPDATES
from tests.native.vulkan.other_device import passed, printed
from tests.needs import needs
from tests.numeric.mlp import mlp_artifact

LAYER = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
WATCHED = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}

pytestmark = needs(LAYER.exists(), reason="no validation layer")


def complaints(output: str) -> list[str]:
    return re.findall(r"^.*(?:VUID-|Validation|SYNC-HAZARD).*$", output, re.MULTILINE)


def test_launches_and_copies() -> None:
    output = passed("test_copies.py", "test_cache.py", "test_launches.py", **WATCHED)
    assert complaints(output) == []


@pytest.mark.parametrize("most", [1 << 10, 1 << 40])
def test_images(most: int) -> None:
    """That are read, and that are not, though they could be."""
    code = """
with Device() as gpu:
    gpu.load(DOUBLE, most_bytes=int(sys.argv[1]))
    a, b = gpu.buffer(np.ones(256, "float32")), gpu.buffer(np.zeros(64, "float32"))
    made = gpu.prepare([Launch(0, (a, b), (192,), (1, 1, 1))] * 2)
    gpu.run(made)
    gpu.wait(made)
    print(gpu.figures(0, DOUBLE).get("images", 0), gpu.read(b, 64, "float32").sum())
    gpu.free(a)
    gpu.free_list(made)
"""
    output = printed(code, str(most), **WATCHED)
    assert complaints(output) == []
    assert output.splitlines()[-1].split() == ["1.0" if most == 1 << 10 else "0", "128.0"]


@pytest.mark.parametrize("target", ["host-vulkan", "host-vulkan{gpu=adreno-750}"])
def test_whole_steps(tmp_path: Path, target: str) -> None:
    """Of micro-batches, with batches sent ahead, profiled, evaluated, and kept."""
    artifact = mlp_artifact(tmp_path, UPDATES["accumulated"], target=target, micro_batches=4)
    artifact.save(tmp_path / "m.odtc")
    runtime_library(GPUS)
    code = """
import odtc
from tests.numeric.mlp import batches
data = batches(5)
with odtc.load(sys.argv[1]).trainer() as trainer:
    list(trainer.train(data, lr=0.1))
    trainer.evaluate(data[0][0])
    with trainer.profile() as profile:
        trainer.step(*data[0], lr=0.1)
    trainer.save_checkpoint(sys.argv[1] + ".ckpt")
    trainer.load_checkpoint(sys.argv[1] + ".ckpt")
    print(type(trainer._engine).__name__)
"""
    output = printed(code, str(tmp_path / "m.odtc"), **WATCHED)
    assert complaints(output) == []
    assert output.splitlines()[-1] == "NativeEngine"


def test_the_layer_says_what_is_wrong() -> None:
    """A copy behind the end of a buffer, which nobody but it would notice."""
    code = """
with Device() as gpu:
    gpu.copy(gpu.allocate(256), 0, gpu.allocate(256), 200, 100)
    gpu.wait()
"""
    assert "VUID-vkCmdCopyBuffer-size-00115" in "".join(complaints(printed(code, **WATCHED)))
