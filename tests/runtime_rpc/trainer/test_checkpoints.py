"""A checkpoint that is not what was written is refused, whatever bit of it changed."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import odtc
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import ArtifactError, NumericError
from odtc.runtime_rpc.state.checkpoint import read_checkpoint
from odtc.runtime_rpc.trainer import Trainer
from tests.numeric.mlp import batches, blind_weight, mlp_artifact

STEPS = 3


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Some steps of a small net; no test may change it."""
    made = mlp_artifact(tmp_path_factory.mktemp("mlp"), odtc.Adam()).trainer(threads=1)
    for x, y in batches(STEPS):
        made.step(x, y, lr=0.02)
    return made


@pytest.fixture
def saved(trainer: Trainer, tmp_path: Path) -> Path:
    """Its checkpoint."""
    trainer.save_checkpoint(tmp_path / "c")
    return tmp_path / "c"


def manifest_of(trainer: Trainer) -> Manifest:
    return trainer._manifest


def header_bytes(data: bytes) -> int:
    return 8 + struct.unpack("<Q", data[:8])[0]


def refusal(path: Path, data: bytes, manifest: Manifest) -> str:
    """Returns the error of a checkpoint with these bytes."""
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        read_checkpoint(path, manifest)
    assert caught.value.where == str(path)
    assert caught.value.hint
    return caught.value.what


def test_no_flipped_bit_is_loaded(trainer: Trainer, saved: Path):
    """One bit of each byte of the header, and of some of the tensors' bytes."""
    whole, rng = saved.read_bytes(), random.Random(0)
    start = header_bytes(whole)
    places = [*range(start), *rng.sample(range(start, len(whole)), 300)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        said = refusal(saved, bytes(data), manifest_of(trainer))
        assert said.startswith("the checkpoint is damaged ("), (place, said)


def test_the_tensor_that_is_damaged_is_named(trainer: Trainer, saved: Path):
    whole = saved.read_bytes()
    head = json.loads(whole[8 : header_bytes(whole)])
    for name, entry in head.items():
        if name != "__metadata__":
            data = bytearray(whole)
            data[header_bytes(whole) + entry["data_offsets"][1] - 1] ^= 1
            said = refusal(saved, bytes(data), manifest_of(trainer))
            assert f"tensor {name!r} does not match its recorded hash" in said


@pytest.mark.parametrize("by", [1, 4, 1000])
def test_a_checkpoint_of_another_length_is_refused(trainer: Trainer, saved: Path, by: int):
    whole = saved.read_bytes()
    for data in (whole[:-by], whole + bytes(by), whole + whole[-by:]):
        assert "bytes behind its header" in refusal(saved, data, manifest_of(trainer))


def test_two_tensors_that_change_places_are_seen(trainer: Trainer, saved: Path):
    """Both have the hashes of the file, as numbers as before: the header's shows it."""
    whole = saved.read_bytes()
    one, other, aside = b"fc1.weight", b"fc2.weight", b"!!!!!!!!!!"
    swapped = whole.replace(one, aside).replace(other, one).replace(aside, other)
    assert swapped != whole
    assert "header does not match its recorded hash" in refusal(
        saved, swapped, manifest_of(trainer)
    )


def crafted(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """Changes the header of a file of the older format: nothing but its own checks keep it."""

    def change_file(data: bytes) -> bytes:
        start = header_bytes(data)
        head = json.loads(data[8:start])
        change(head)
        text = json.dumps(head).encode()
        return struct.pack("<Q", len(text)) + text + data[start:]

    return change_file


def metadata(**values: str) -> Callable[[dict[str, Any]], None]:
    return lambda head: head["__metadata__"].update(values)


def tensor(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda head: head["fc1.weight"].update(values)


@pytest.mark.parametrize(
    "change",
    {
        "a huge step": crafted(metadata(step="9" * 400)),
        "a step beyond all digits": crafted(metadata(step="9" * 5000)),
        "the first step that is no int32": crafted(metadata(step=str(2**31 - 1))),
        "a negative step": crafted(metadata(step="-1")),
        "no step": crafted(metadata(step="one")),
        "huge micro-batches": crafted(metadata(micro_batches="9" * 400)),
        "no micro-batches": crafted(metadata(micro_batches="0")),
        "a number as metadata": crafted(lambda head: head["__metadata__"].update(step=1)),
        "a huge tensor": crafted(tensor(shape=[2**40, 2**40])),
        "a tensor of too many axes": crafted(tensor(shape=[1] * 100)),
        "a negative size": crafted(tensor(shape=[-4, -6])),
        "no size": crafted(tensor(shape="large")),
        "a fraction": crafted(tensor(shape=[1.5, 4])),
        "a truth": crafted(tensor(shape=[True, 4])),
        "an unknown type": crafted(tensor(dtype="F31")),
        "a type that is none": crafted(tensor(dtype=["F32"])),
        "a place beyond the file": crafted(tensor(data_offsets=[2**62, 2**62 + 96])),
        "a place that ends before": crafted(tensor(data_offsets=[96, 0])),
        "two tensors at one place": crafted(lambda head: head.update({"x": head["fc1.weight"]})),
        "a list": crafted(lambda head: head.update({"x": []})),
        "the longest header": lambda data: struct.pack("<Q", 2**64 - 1) + data[8:],
        "a header longer than the file": lambda data: struct.pack("<Q", len(data)) + data[8:],
        "a header of deep lists": lambda _: struct.pack("<Q", 50_000) + b"[" * 50_000,
        "no text": lambda _: struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc",
        "nothing": lambda _: b"",
        "seven bytes": lambda data: data[:7],
    }.items(),
    ids=lambda item: item[0],
)
def test_what_a_file_says_is_not_believed(
    trainer: Trainer, saved: Path, change: tuple[str, Callable[[bytes], bytes]]
):
    old_format(saved)
    refusal(saved, change[1](saved.read_bytes()), manifest_of(trainer))


def test_a_new_file_does_not_pass_for_an_old_one(trainer: Trainer, saved: Path):
    """Were its hashes removed, it would have what the older format had not."""

    def stripped(head: dict[str, Any]) -> None:
        for key in ("hashes", "sha256"):
            del head["__metadata__"][key]
        head["__metadata__"]["format"] = "odtc-checkpoint-2"

    said = refusal(saved, crafted(stripped)(saved.read_bytes()), manifest_of(trainer))
    assert said == "not a checkpoint of odtc"


def old_format(path: Path) -> None:
    """Writes a checkpoint again as it was written before there were hashes."""
    with safe_open(path, framework="numpy") as file:
        said = file.metadata()
    kept = {key: said[key] for key in said if key not in ("hashes", "sha256", "run")}
    save_file(load_file(path), path, kept | {"format": "odtc-checkpoint-2"})


def test_checkpoints_without_hashes_are_read_with_a_warning(trainer: Trainer, saved: Path):
    old_format(saved)
    other = Trainer(trainer._bundle, trainer.session, threads=1)
    with pytest.warns(UserWarning, match="c: a checkpoint of an older odtc: without hashes"):
        other.load_checkpoint(saved)
    assert other.steps == STEPS
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(other.parameters()[name], value)


def test_the_same_state_gives_the_same_bytes(trainer: Trainer, saved: Path, tmp_path: Path):
    other = Trainer(trainer._bundle, trainer.session, threads=1)
    other.load_checkpoint(saved)
    other.save_checkpoint(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_other_readers_of_safetensors_read_it(trainer: Trainer, saved: Path):
    found = load_file(saved)
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_not_saved(trainer: Trainer, saved: Path, value: float):
    before = saved.read_bytes()
    other = Trainer(trainer._bundle, trainer.session, threads=1)
    other.load_checkpoint(saved)
    weights = other.parameters()["fc1.weight"]
    weights[0, :2] = value
    other.set_parameters({"fc1.weight": weights})
    with pytest.raises(NumericError) as caught:
        other.save_checkpoint(saved)
    assert caught.value.what == (
        f"2 of {weights.size} elements of 'fc1.weight' are not finite, such as {value}"
    )
    assert caught.value.where == f"checkpoint {saved}"
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["c"]


def test_state_that_is_not_finite_is_not_saved(trainer: Trainer, saved: Path):
    """Squares of gradients leave float32, where weights and losses do not."""
    other = Trainer(trainer._bundle, trainer.session, threads=1)
    other.set_parameters(blind_weight())
    x, y = batches(1)[0]
    x[:, 0] = 1e30
    with pytest.raises(NumericError, match=r"elements of 'square/fc1.weight' are inf at step 1"):
        other.step(x, y, lr=0.02)
    with pytest.raises(NumericError, match=r"elements of 'square/fc1.weight' are not finite"):
        other.save_checkpoint(saved)
    assert all(np.isfinite(value).all() for value in other.parameters().values())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_tensors_of_all_types_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    tensors = {name: rng.integers(0, 2, shape).astype(dtype) for name in ("b", "a")}
    tensors["odd"] = np.ones(3, np.int8)
    for hashed in (False, True):
        write_tensors(tmp_path / "t", tensors, {"ü": '"sha256":"'}, hashed=hashed)
        found = load_file(tmp_path / "t")
        assert found.keys() == tensors.keys()
        for name, value in tensors.items():
            np.testing.assert_array_equal(found[name], value, strict=True)
