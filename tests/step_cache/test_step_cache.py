"""A step that was compiled before is the same artifact, and only where all is as it was."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.backends.objects import outlines
from odtc.core.artifact.bundle import MEMBERS
from odtc.driver import building
from odtc.step_cache import key, store
from odtc.step_cache.store import step_store
from tests.caches import without_steps
from tests.step_cache.model_files import SIZE, WIDE, write_model


def members(artifact: Artifact) -> dict[str, bytes]:
    """Returns the members of an artifact."""
    root = artifact._bundle.root
    files = {name: (root / name).read_bytes() for name in MEMBERS}
    return files | {"manifest": artifact.manifest.to_json().encode()}


def test_the_same_again_is_not_built(
    tmp_path: Path, cache: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "m")
    first = odtc.compile(model, optimizer="adam")
    again = odtc.compile(model, optimizer=odtc.Adam())
    assert len(built) == 1
    assert members(again) == members(first)
    x, y = np.ones((4, SIZE), np.float32), np.arange(4)
    losses = [
        [trainer.step(x, y, lr=0.1) for _ in range(3)]
        for trainer in (first.trainer(), again.trainer())
    ]
    assert losses[0] == losses[1]
    # A folder of its own, which goes with it.
    assert first._bundle.root != again._bundle.root
    first.save(tmp_path / "first.odtc")
    for member in first._bundle.root.iterdir():
        os.utime(member, (0, 1_000_000_000))
    monkeypatch.setattr("zipfile.time.localtime", lambda _: time.gmtime(1_000_000_000))
    first.save(tmp_path / "later.odtc")
    again.save(tmp_path / "again.odtc")
    bytes_of = [(tmp_path / f"{name}.odtc").read_bytes() for name in ("first", "later", "again")]
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]
    odtc.load(tmp_path / "again.odtc").close()


def test_a_step_for_a_gpu_of_this_machine_is_found(
    tmp_path: Path, cache: Path, built: list[str]
) -> None:
    model = write_model(tmp_path / "m")
    first, again = (odtc.compile(model, "host-opencl") for _ in range(2))
    assert len(built) == 1
    assert members(again) == members(first)
    odtc.compile(model, "host-opencl{gpu=mali-g78}")
    assert len(built) == 2


@pytest.mark.parametrize("beside", [False, True])
def test_weights_that_the_model_has_are_not_kept_twice(
    tmp_path: Path, cache: Path, built: list[str], monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    from odtc.frontend.weights import in_file

    monkeypatch.setattr(in_file, "_LARGE_FILE", 0)
    monkeypatch.setattr(in_file, "_LARGE_TENSOR", 1 << 10)
    model = write_model(tmp_path / "m", beside=beside)
    first = odtc.compile(model)
    assert members(odtc.compile(model)) == members(first)
    assert len(built) == 1
    weights = first._bundle.parameters.stat().st_size
    rest = sum(len(content) for name, content in members(first).items()) - weights
    assert step_store().size().nbytes < rest + weights // 5


def test_files_beside_the_model_count(tmp_path: Path, cache: Path, built: list[str]) -> None:
    model = write_model(tmp_path / "m", beside=True)
    odtc.compile(model)
    # Whole, in another place.
    moved = tmp_path / "moved"
    shutil.copytree(model.parent, moved)
    odtc.compile(moved / model.name)
    assert len(built) == 1
    other = write_model(tmp_path / "other", beside=True, seed=1)
    assert other.read_bytes() == model.read_bytes()
    changed = odtc.compile(other)
    assert len(built) == 2
    found = changed.trainer().parameters()["w"]
    assert np.array_equal(found, np.random.default_rng(1).standard_normal((SIZE, WIDE), np.float32))
    (moved / "mlp.data").unlink()
    with pytest.raises(odtc.OdtcError):
        odtc.compile(moved / model.name)


def test_what_is_damaged_or_of_another_step_is_built(
    tmp_path: Path, cache: Path, built: list[str]
) -> None:
    model = write_model(tmp_path / "m")
    first = odtc.compile(model)
    (entry,) = entries(cache)
    content = bytearray(entry.read_bytes())
    for at in range(40, len(content), len(content) // 7):
        content[at] ^= 1
        entry.write_bytes(content)
        content[at] ^= 1
    odtc.compile(model)
    assert len(built) == 2
    # One that lies under the key of another.
    odtc.compile(model, seed=1)
    one, two = entries(cache)
    shutil.copyfile(one, two)
    shutil.copyfile(two, one)
    assert members(odtc.compile(model))["manifest"] == members(first)["manifest"]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_cache_that_cannot_be_written_changes_nothing(
    tmp_path: Path, cache: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are the files of the package looked at for it, and nothing is hashed for a key."""

    def never(*_: object) -> bool:
        raise AssertionError

    for module in (key, store, outlines):
        monkeypatch.setattr(module, "is_as_loaded", never)
    monkeypatch.setattr(key, "made_by", never)
    monkeypatch.setattr(outlines.RecallKernels, "run", never)
    without_steps(cache.parents[1])
    model = write_model(tmp_path / "m")
    odtc.compile(model)
    odtc.compile(model)
    assert len(built) == 2


def test_more_than_an_entry_may_have_is_not_put_together(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(store, "MOST_BYTES", 16 * 50_000)
    monkeypatch.setattr(store, "cut", never)
    odtc.compile(write_model(tmp_path / "m"))
    assert step_store().size().entries == 0


def test_warnings_are_given_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "m")
    build = building.build

    def lossy(*given):
        kept = build(*given)
        return store.KeptStep(kept.bundle, ("something was lost",))

    monkeypatch.setattr(building, "build", lossy)
    for _ in range(2):
        with pytest.warns(UserWarning, match="compile: something was lost") as given:
            odtc.compile(model)
        assert [each.filename for each in given] == [__file__]
    with warnings.catch_warnings(record=True) as said:
        odtc.compile(model, seed=1)
    assert len(said) == 1


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other process uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_weights_that_are_not_those_of_the_key_are_not_taken(
    tmp_path: Path,
    cache: Path,
    built: list[str],
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model's file may change between the look at its hash and that at its weights."""
    model = write_model(tmp_path / "m")
    first = odtc.compile(model)
    join = store.join

    def late(path: Path, *given) -> None:
        join(path, *given)
        path.write_bytes(bytes(path.stat().st_size))

    monkeypatch.setattr(store, "join", late)
    left = {*temporary.iterdir()}
    again = odtc.compile(model)
    assert len(built) == 2
    assert members(again) == members(first)
    # That of the second artifact, and none of what was thrown away.
    assert len({*temporary.iterdir()} - left) == 1


def test_there_is_room_for_the_artifact_or_an_error(
    tmp_path: Path, cache: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "m")
    odtc.compile(model)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "join", full)
    left = {*temporary.iterdir()}
    with pytest.raises(odtc.OdtcError, match="No space left"):
        odtc.compile(model)
    assert {*temporary.iterdir()} == left


TWICE = """
import sys
import odtc
odtc.compile(sys.argv[1])
print("tvm" in sys.modules)
"""


def test_what_is_kept_needs_no_compiler(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", TWICE, str(model)]
    said = [
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [each.stdout.strip() for each in said] == ["True", "False"]
