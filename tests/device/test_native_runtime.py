"""Whole runs on 64-bit ARM, under emulation: three builds of the runtime, and TVM behind RPC.

Losses, weights, statistics, optimizer state, averages and evaluations have the same bytes.
"""

import shutil
from itertools import product
from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from odtc.backends.targets import parse_target
from tests.device.arm_builds import (
    BUILDS,
    COMPILER,
    CORE,
    EMULATOR,
    build_android,
    by_trainer,
    kept_objects,
    run,
    runtime_objects,
)
from tests.fast import fast_if
from tests.native.parity import THREADS, unpacked
from tests.native.same_bits.options import OPTIONS
from tests.native.same_bits.subject import Subject
from tests.needs import needs

LINUX, ANDROID = f"linux-arm64-cpu{{mcpu={CORE}}}", f"android-cpu{{mcpu={CORE}}}"
# The checkpoint in the middle is between two updates where gradients are added up.
STEPS = 6
# Models with options: each option, and each kind of layer, is in one of them.
CASES = {
    "lenet": ("averages",),
    "bert_base": ("dropout", "accumulation", "lora"),
    "mobilenet_v2": ("averages", "mixed"),
    "squeezenet": ("momentum", "clipping", "micro-sums", "layout"),
    "unet": ("plans", "storage", "half"),
    "densenet121": ("loss-scale",),
    "gpt2": ("micro-batches", "skipping", "budget"),
    "seq2seq": ("averages",),
}
FAST = ("lenet", "averages")

pytestmark = [
    pytest.mark.device,
    needs(
        *map(shutil.which, (COMPILER, EMULATOR[0], "javac")),
        reason="no compiler for 64-bit ARM, no emulator, or no JDK",
    ),
]


def test_the_targets_compute_alike() -> None:
    linux, android = map(parse_target, (LINUX, ANDROID))
    assert linux.cpu.mcpu == android.cpu.mcpu
    assert linux.mattr == android.mattr


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return runtime_objects(tmp_path_factory.mktemp("runtime"))


@pytest.mark.parametrize(
    "case",
    fast_if(FAST.__eq__, [(name, each) for name, options in CASES.items() for each in options]),
    ids="-".join,
)
def test_all_builds_leave_the_same_bytes(
    case: tuple[str, str], runtime: list[str], phone, tmp_path: Path
) -> None:
    name, option = case
    model = SMALL[name]
    with kept_objects() as objects:
        linux = OPTIONS[option].compiled(Subject(model, tmp_path, LINUX))
    android = OPTIONS[option].compiled(Subject(model, tmp_path, ANDROID))
    assert OPTIONS[option].holds(linux.manifest)
    data = Subject(model, tmp_path).batches(STEPS)
    members = unpacked(linux, tmp_path / "linux")
    builds = {
        each: (build(runtime, members, objects[-1]), linux, members)
        for each, build in BUILDS.items()
    }
    of_app = unpacked(android, tmp_path / "android")
    builds["android"] = build_android(android, of_app), android, of_app
    with linux.trainer(device=phone.url, threads=1) as trainer:
        wanted = by_trainer(trainer, data, model.lr)
    # The quick case has one number of threads for each build.
    asked = zip(builds, THREADS, strict=True) if case == FAST else product(builds, THREADS)
    found = {
        (build, threads): run(*builds[build], data, model.lr, threads) for build, threads in asked
    }
    assert [key for key, each in found.items() if each != wanted] == []
