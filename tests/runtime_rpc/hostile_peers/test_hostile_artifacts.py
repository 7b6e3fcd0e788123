"""Artifacts that were tampered with: each is refused before any of it is used."""

import contextlib
import hashlib
import json
import resource
import signal
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save as save_tensors

import odtc
from odtc.cli.main import main
from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.library_file import build_id
from odtc.core.errors import ArtifactError, DataError, ExitCode, OutputError
from odtc.runtime_rpc.data.readers import read_data

Members = dict[str, bytes]
Change = Callable[[Members], None]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two square weights, which could be taken for each other."""
    folder = tmp_path_factory.mktemp("whole")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in "xy"]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("MatMul", ["h", "second"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), name)
        for name in ("first", "second")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    odtc.compile(folder / "m.onnx", batch=2, loss="mse").save(folder / "m.odtc")
    return folder / "m.odtc"


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(path: Path, target: Path, change: Change) -> Path:
    """The artifact with a change, its hashes made anew."""
    members = members_of(path)
    change(members)
    manifest = json.loads(members["manifest.json"])
    manifest["files"] = {
        name: hashlib.sha256(data).hexdigest()
        for name, data in members.items()
        if name != "manifest.json"
    }
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def in_manifest(change: Callable[[dict], None]) -> Change:
    def apply(members: Members) -> None:
        manifest = json.loads(members["manifest.json"])
        change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()

    return apply


def parameters(manifest: dict) -> list[dict]:
    return [item["spec"] for item in manifest["arguments"] if item["role"] == "parameter"]


def renamed(manifest: dict) -> None:
    parameters(manifest)[0]["name"] = "other"


def exchanged(manifest: dict) -> None:
    first, second = parameters(manifest)
    first["name"], second["name"] = second["name"], first["name"]


def smaller(manifest: dict) -> None:
    manifest["plans"][0]["arena_bytes"] = 64


def other_weights(members: Members) -> None:
    weights = {name: np.zeros((4, 4), np.float32) for name in ("first", "second")}
    members["parameters.safetensors"] = save_tensors(weights)


def other_model(members: Members) -> None:
    members["model.onnx"] = members["model.onnx"].replace(b"second", b"third_")


def test_what_was_not_changed_is_loaded(artifact: Path, tmp_path: Path) -> None:
    same = odtc.load(changed(artifact, tmp_path / "same.odtc", lambda _: None))
    same.save(tmp_path / "again.odtc")
    trainer = odtc.load(tmp_path / "again.odtc").trainer(threads=1)
    assert np.isfinite(trainer.step(np.ones((2, 4), np.float32), np.ones((2, 4), np.float32), 0.1))


@pytest.mark.parametrize(
    "change",
    [
        *map(in_manifest, (renamed, exchanged, smaller, lambda m: m.update(loss="mae"))),
        *(other_weights, other_model),
    ],
    ids=["renamed", "exchanged", "arena", "loss", "weights", "model"],
)
def test_parts_belong_together(change: Change, artifact: Path, tmp_path: Path, capsys) -> None:
    path = changed(artifact, tmp_path / "m.odtc", change)
    assert main(["inspect", str(path)]) == ExitCode.ARTIFACT
    assert "the parts of the artifact do not belong together" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0, 0.001, 0.05, 0.3, 0.5, 0.6, 0.999])
def test_a_library_that_is_cut(share: float, artifact: Path, tmp_path: Path) -> None:
    def cut(members: Members) -> None:
        members["step.so"] = members["step.so"][: int(share * len(members["step.so"]))]

    path = changed(artifact, tmp_path / "m.odtc", cut)
    with pytest.raises(ArtifactError, match=r"step\.so cannot be loaded: "):
        odtc.load(path)


def test_no_header_of_a_library_is_trusted(artifact: Path, tmp_path: Path) -> None:
    """Whatever the headers hold, the library is read or refused."""
    data = members_of(artifact)["step.so"]
    rng = np.random.default_rng(0)
    for _ in range(300):
        wrong = np.frombuffer(data, np.uint8).copy()
        wrong[rng.integers(0, 800, 4)] = rng.choice([0, 1, 0x7F, 0xFF], 4)
        (tmp_path / "step.so").write_bytes(wrong.tobytes())
        with contextlib.suppress(ValueError):
            assert bytes.fromhex(build_id(tmp_path / "step.so"))


@pytest.mark.parametrize("member", ["manifest.json", "parameters.safetensors", "memory.json"])
def test_nothing_is_inflated(member: str, artifact: Path, tmp_path: Path, monkeypatch) -> None:
    """Of 64 MiB of spaces or zeros a file of some kilobytes."""
    members = members_of(artifact)
    with zipfile.ZipFile(tmp_path / "m.odtc", "w") as archive:
        for name, data in members.items():
            many = b" " * (64 << 20) if name == member else b""
            archive.writestr(name, data + many, zipfile.ZIP_DEFLATED if many else None)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(ArtifactError, match=f"the member {member} is compressed or encrypted"):
        odtc.load(tmp_path / "m.odtc")


@pytest.mark.parametrize("member", ["manifest.json", "memory.json"])
def test_text_has_a_limit(member: str, artifact: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(bundles._LIMITS, member, 100)
    with pytest.raises(ArtifactError, match=rf"{member} has [\d,]+ bytes; at most 100 are read"):
        odtc.load(artifact)


def test_a_member_is_there_once(artifact: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.odtc", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in [*members_of(artifact).items(), ("step.so", b"other")]:
            archive.writestr(name, data)
    with pytest.raises(ArtifactError, match=r"the member step\.so is there 2 times"):
        odtc.load(tmp_path / "m.odtc")


def with_many_entries(path: Path, count: int) -> Path:
    """A zip file whose directory has so many entries, and nothing else."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *[0] * 11, 1, *[0] * 6) + b"x"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, count * len(entry), 0, 0)
    path.write_bytes(b"PK\3\4" + entry * count + end)
    return path


def read_by_train(path: Path, artifact: Path) -> None:
    read_data(path, odtc.load(artifact).manifest)


@pytest.mark.parametrize(
    ("read", "error"),
    [(lambda path, _: odtc.load(path), ArtifactError), (read_by_train, DataError)],
    ids=["artifact", "data"],
)
def test_a_directory_of_a_million_entries_is_not_read(
    read: Callable[[Path, Path], object], error: type, artifact: Path, tmp_path: Path
) -> None:
    few = with_many_entries(tmp_path / "few.npz", 3)
    assert zipfile.ZipFile(few).namelist() == ["x"] * 3
    path = with_many_entries(tmp_path / "many.npz", 1_000_000)
    odtc.load(artifact)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=r"its directory has 47,000,000 bytes; at most [\d,]+ are"):
            read(path, artifact)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("member", ["manifest.json", "memory.json"])
def test_text_that_lies_deep(member: str, artifact: Path, tmp_path: Path) -> None:
    def deepen(members: Members) -> None:
        members[member] = b"[" * 100_000

    if member == "manifest.json":
        with zipfile.ZipFile(tmp_path / "m.odtc", "w") as archive:
            members = members_of(artifact)
            deepen(members)
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        changed(artifact, tmp_path / "m.odtc", deepen)
    with pytest.raises(ArtifactError, match="damaged"):
        _ = odtc.load(tmp_path / "m.odtc").memories


def test_a_limit_on_files_is_no_damage(artifact: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OutputError, match="cannot write: File too large"):
            odtc.load(artifact)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
