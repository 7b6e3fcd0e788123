"""Schedules of phones' GPUs, on this machine's devices, against PyTorch."""

from itertools import product
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.models.pytorch.table import SMALL
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.gpu.spirv.module_reader import opencl_module
from tests.models.parity import check_parity

PHONES = ["adreno-640", "mali-g76"]
CASES = list(product(KINDS, PHONES, ["lenet", "squeezenet", "bert_base"]))
FAST = [("opencl", "adreno-640", "lenet"), ("vulkan", "mali-g76", "lenet")]


@pytest.mark.parametrize("case", fast_if(FAST.__contains__, CASES), ids="-".join)
def test_as_pytorch_trains_it(case: tuple[str, str, str], tmp_path: Path) -> None:
    kind, gpu, name = case
    check_parity(SMALL[name], "torchscript", tmp_path, f"host-{kind}{{gpu={gpu}}}")


def sources(model: Path, target: str) -> set[str]:
    """Kernels of a library, as OpenCL's source."""
    artifact = odtc.compile(model, target, batch=8)
    _, parts = opencl_module(artifact._bundle.library.read_bytes())
    return set(parts.values())


def test_the_host_runs_the_kernels_of_the_phone(tmp_path: Path) -> None:
    """Not others in the same shapes: their source is the same, and another GPU's is not."""
    onnx.save(bn_model(), tmp_path / "m.onnx")
    phone, host, other = (
        sources(tmp_path / "m.onnx", target)
        for target in (
            "android-opencl{gpu=mali-g76}",
            "host-opencl{gpu=mali-g76}",
            "android-opencl{gpu=adreno-640}",
        )
    )
    assert len(phone) > 10
    assert host == phone
    assert other != phone
