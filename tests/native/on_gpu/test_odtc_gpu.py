"""`odtc_gpu.h`, as a program in C has it: tensors on a GPU, and what is refused."""

import ctypes as c
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, Handle, NativeError, Options, loaded_gpu_runtime
from odtc.runtime_rpc.native.on_gpu import OnGpu
from tests.native.parity import feed, unpacked
from tests.numeric.mlp import batches, mlp_artifact

LR = 0.1
((X, Y),) = batches(1)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    update = odtc.SGD(momentum=0.9)
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), update, target="host-opencl")


@pytest.fixture
def native(artifact: Artifact, tmp_path: Path) -> NativeTrainer:
    folder = unpacked(artifact, tmp_path / "members")
    trainer = NativeTrainer(folder, 1, None, loaded_gpu_runtime())
    feed(trainer, artifact.manifest, X, Y)
    return trainer


def opened(folder: Path, **options: object) -> tuple[int, str]:
    """The code and the message of opening an artifact's members, and of a step."""
    library, handle, loss = loaded_gpu_runtime(), Handle(), c.c_double()
    members = ("program.bin", "parameters.safetensors", "step.so")
    given = Options(*(os.fsencode(folder / name) for name in members), **options)
    code = library.odtc_open(c.byref(given), c.byref(handle))
    code = code or library.odtc_step(handle, LR, c.byref(loss))
    message = library.odtc_message(handle).decode()
    library.odtc_close(handle)
    return code, message


def test_memory_holds_what_the_device_has_when_it_is_fetched(native: NativeTrainer) -> None:
    on_gpu = OnGpu(native, lambda: None)
    assert on_gpu.name
    number = [*native.tensors].index(("parameter", "fc1.weight"))
    weight = native.tensors["parameter", "fc1.weight"]
    before = weight.copy()
    native.step(LR)
    on_gpu.fetch(number)
    trained = weight.copy()
    assert (trained != before).any()
    losses = [native.step(LR), native.step(LR)]
    weight[...] = before
    on_gpu.send(number)
    assert native.step(LR) not in losses
    on_gpu.fetch(number)
    assert (weight != before).any()
    with pytest.raises(NativeError, match="there is no tensor 99"):
        on_gpu.fetch(99)


def test_weights_of_the_file_stay_in_it(native: NativeTrainer, tmp_path: Path) -> None:
    weights = tmp_path / "members" / "parameters.safetensors"
    content = weights.read_bytes()
    native.step(LR)
    assert native.checkpoint()
    assert weights.read_bytes() == content


def test_a_step_is_cancelled_before_it_began(native: NativeTrainer) -> None:
    for now in (False, True):
        native.cancel(now=now)
        with pytest.raises(NativeError) as caught:
            native.step(LR)
        assert caught.value.code is Code.CANCELLED
        assert native.step(LR) > 0


def test_a_gpu_has_no_threads(native: NativeTrainer) -> None:
    for call in (lambda: native.use_threads(2), lambda: native.use_cores([0])):
        with pytest.raises(NativeError, match="a GPU takes the steps") as caught:
            call()
        assert caught.value.code is Code.USAGE


@pytest.mark.parametrize("gpu", ["", "{gpu=adreno-750}"])
def test_what_is_kept_of_a_driver_is_taken_or_written_anew(gpu: str, tmp_path: Path) -> None:
    """Programs that read images, too."""
    artifact = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9), target=f"host-opencl{gpu}")
    folder = unpacked(artifact, tmp_path / "members")
    (tmp_path / "kept").mkdir()
    kept = os.fsencode(tmp_path / "kept")
    assert opened(folder, gpu_cache=kept)[0] == Code.OK
    (file,) = (tmp_path / "kept").iterdir()
    whole, stamp = file.read_bytes(), file.stat().st_ino
    assert opened(folder, gpu_cache=kept)[0] == Code.OK
    assert file.stat().st_ino == stamp
    other_hash = bytes([whole[0] ^ 1]) + whole[1:]
    for damaged in (
        b"",
        whole[:100],
        whole[:-1],
        whole[:64] + b"\xff" * 8 + whole[72:],
        other_hash,
    ):
        file.write_bytes(damaged)
        assert opened(folder, gpu_cache=kept)[0] == Code.OK
        content = file.read_bytes()
        assert len(content) > 1000
        assert content[:32] == hashlib.sha256(content[32:]).digest()
    assert opened(folder, gpu_cache=b"/nowhere/at/all")[0] == Code.OK


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"gpu": 99}, Code.DEVICE, "there is no OpenCL device 99: this machine has "),
        ({"gpu": -1}, Code.DEVICE, "there is no OpenCL device -1: this machine has "),
        ({"offload_state": 1}, Code.USAGE, "optimizer state cannot lie in files: a GPU reads none"),
        ({"gpu_cache": b"x" * 2000}, Code.USAGE, "the path of the folder for programs is too long"),
    ],
)
def test_what_cannot_be_is_refused(
    options: dict[str, object], code: Code, says: str, artifact: Artifact, tmp_path: Path
) -> None:
    found, message = opened(unpacked(artifact, tmp_path / "members"), **options)
    assert found == code
    assert message.startswith(says)


def test_the_library_for_cpus_refuses_it(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(NativeError, match="TVMFFIFunctionCall") as caught:
        NativeTrainer(unpacked(artifact, tmp_path / "members"), 1)
    assert caught.value.code is Code.UNSUPPORTED


def test_a_step_for_a_cpu_is_taken_by_that_with_gpus(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    losses = []
    for number, library in enumerate((None, loaded_gpu_runtime())):
        folder = unpacked(artifact, tmp_path / f"members {number}")
        with NativeTrainer(folder, 1, None, library) as native:
            feed(native, artifact.manifest, X, Y)
            losses.append([native.step(LR) for _ in range(3)])
            assert np.isfinite(losses[-1]).all()
    assert losses[0] == losses[1]
