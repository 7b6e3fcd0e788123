"""No two tensors of a call share a byte, by which kernels need not say that their buffers alias.

In SPIR-V buffers that share what one of them writes would have to be decorated as `Aliased`.
"""

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import odtc
from benchmarks.models.digits import bn_model
from odtc.artifact import Artifact
from odtc.core.artifact.bundle import PROGRAM
from tests.native.reader import read
from tests.native.test_parity import UPDATES
from tests.numeric.mlp import mlp_artifact
from tests.numeric.plans.test_memory_budget import tower


def assert_apart(artifact: Artifact) -> None:
    program = read((artifact._bundle.root / PROGRAM).read_bytes())
    assert all(function["calls"] for function in program.functions)
    for function in program.functions:
        for kernel, operands in function["calls"]:
            places = [place_of(program.tensors[number]) for number in operands]
            for one, other in combinations(places, 2):
                assert not meet(one, other), (function["name"], kernel)


def place_of(tensor: dict[str, Any]) -> tuple[str, int, int, int]:
    """Which memory a tensor lies in, and where it begins and ends there."""
    size = math.prod(tensor["shape"]) * np.dtype(tensor["dtype"]).itemsize
    return tensor["in"], tensor["number"], tensor["offset"], tensor["offset"] + size


def meet(one: tuple[str, int, int, int], other: tuple[str, int, int, int]) -> bool:
    return one[:2] == other[:2] and one[2] < other[3] and other[2] < one[3]


def test_updates_in_place(tmp_path: Path) -> None:
    assert_apart(mlp_artifact(tmp_path, UPDATES["accumulated"], target="host-vulkan"))


def test_statistics(tmp_path: Path) -> None:
    onnx.save(bn_model(), path := tmp_path / "m.onnx")
    update = odtc.Update(odtc.AdamW(), ema=0.9)
    assert_apart(odtc.compile(path, "host-vulkan", batch=8, optimizer=update))


def test_plans_that_compute_again(tmp_path: Path) -> None:
    onnx.save(tower(layers=3), path := tmp_path / "tower.onnx")
    artifact = odtc.compile(path, "host-vulkan", batch=4, memory_budget="auto", seed=3)
    assert len(artifact.manifest.plans) > 1
    assert_apart(artifact)
