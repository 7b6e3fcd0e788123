"""Kernels that are linked into an app: the archive of a step, its check, and its symbols."""

import hashlib
import json
import re
import zipfile
from pathlib import Path

import onnx
import pytest
import tvm
from tvm import te

import odtc
from benchmarks.models.digits import digits_model
from odtc.artifact import Artifact
from odtc.backends.cpus import tvm_cpu
from odtc.backends.objects.kernel_objects import Objects, kernel_objects
from odtc.backends.objects.mach_o import renamed, symbols_of
from odtc.backends.objects.static_kernels import check_kernels, read_kernels, write_kernels
from odtc.backends.targets import parse_target
from odtc.core.artifact.library_file import build_id
from odtc.core.artifact.static_library import members_of, static_library
from odtc.core.errors import ArtifactError, BuildError

IOS = parse_target("ios-cpu")
IDENTITY = "ab" * 32


def objects_that_call(function: str) -> Objects:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: tvm.tirx.call_pure_extern("float32", function, x[i]))
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        return kernel_objects({"kernel": te.create_prim_func([x, y])}, IOS.to_tvm())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "step"
    write_kernels(objects_that_call("cosf"), path, IDENTITY)
    return path


def test_what_is_written_is_read(written: Path) -> None:
    kernels = read_kernels(written)
    (symbol,) = kernels.files
    assert kernels.symbols == {"__tvm_ffi_kernel": symbol}
    names = {each.name: each.is_defined for each in symbols_of(kernels.files[symbol])}
    assert names[symbol]
    assert not names["cosf"]
    assert build_id(written) == IDENTITY


def test_kernels_for_several_cpus(tmp_path: Path) -> None:
    """Under names of their own, in the archive and in an app's table."""
    x = te.placeholder((16,), name="x")
    kernel = te.create_prim_func([x, te.compute((16,), lambda i: x[i] + x[i])])
    both = parse_target("ios-cpu{mcpu=apple-a12+apple-a14}")
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        also = [tvm_cpu(cpu) for cpu in both.cpus[1:]]
        objects = kernel_objects({"kernel": kernel}, both.to_tvm(), also)
    write_kernels(objects, path := tmp_path / "step", IDENTITY)
    kernels = read_kernels(path)
    assert kernels.symbols.keys() == {"__tvm_ffi_kernel", "__tvm_ffi_kernel.1"}
    assert len(set(kernels.symbols.values())) == len(kernels.files) == 2
    assert [objects.bytes_of(number) for number in (0, 1)] == [
        len(kernels.files[symbol]) for _, symbol in sorted(kernels.symbols.items())
    ]


def test_own_names(written: Path) -> None:
    (content,) = read_kernels(written).files.values()
    again = renamed(content, lambda name: f"model_{name}")
    old, new = symbols_of(content), symbols_of(again)
    assert [each.name for each in new] == [
        f"model_{each.name}" if each.is_defined else each.name for each in old
    ]
    assert [each.at for each in new] == [each.at for each in old]
    # Another time, too: its strings are at the end again.
    assert symbols_of(renamed(again, lambda name: name)) == new


def test_the_gate(tmp_path: Path) -> None:
    write_kernels(objects_that_call("cosf"), tmp_path / "step", IDENTITY)
    check_kernels(tmp_path / "step", IOS)
    write_kernels(objects_that_call("mystery"), tmp_path / "step", IDENTITY)
    with pytest.raises(BuildError) as caught:
        check_kernels(tmp_path / "step", IOS)
    assert caught.value.what.splitlines() == [
        "the kernels cannot be linked into an app for ios-cpu:",
        "  - it leaves the symbol mystery undefined: no library has it",
    ]


def test_what_tvm_alone_has(written: Path, tmp_path: Path) -> None:
    kernels = read_kernels(written)
    (symbol,) = kernels.files
    edited = renamed(
        kernels.files[symbol], lambda name: name if name == symbol else "__TVMBackendAllocWorkspace"
    )
    members = {"build-id": IDENTITY.encode(), "names": json.dumps(kernels.symbols).encode()}
    (tmp_path / "step").write_bytes(static_library({**members, f"{symbol}.o": edited}))
    with pytest.raises(BuildError, match="it calls TVMBackendAllocWorkspace, which no app has"):
        check_kernels(tmp_path / "step", IOS)


def test_object_files_that_are_none(written: Path) -> None:
    (content,) = read_kernels(written).files.values()
    damaged = {
        "": "cut short",
        "\x7fELF" * 16: "not a Mach-O object file",
        content[:200].decode("latin-1"): "cut short",
        content[:-8].decode("latin-1"): "cut short",
    }
    for data, text in damaged.items():
        with pytest.raises(ValueError, match=text):
            symbols_of(data.encode("latin-1"))
    with pytest.raises(ValueError, match="not at its end"):
        renamed(content + bytes(8), str)
    assert renamed(content + b"\n\n", str) == renamed(content, str)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    onnx.save(digits_model(), folder / "digits.onnx")
    odtc.compile(folder / "digits.onnx", "ios-cpu", batch=4).save(folder / "digits.odtc")
    return folder / "digits.odtc"


def test_an_artifact_of_such_kernels(saved: Path) -> None:
    artifact: Artifact = odtc.load(saved)
    assert artifact.manifest.triple.startswith("aarch64-apple-ios")
    kernels = read_kernels(artifact._bundle.library)
    program = artifact._bundle.program.read_bytes()
    # Text of the program, one name behind the other.
    assert set(kernels.symbols) >= {
        name.decode() for name in re.findall(rb"__tvm_ffi_\w+", program)
    }


def test_kernels_of_another_artifact(saved: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for change, text in (("f" * 64, "do not belong together"), ("odd", "cannot be loaded")):
        edited = members_of(members["step.so"]) | {"build-id": change.encode()}
        library = static_library(edited)
        manifest["files"]["step.so"] = hashlib.sha256(library).hexdigest()
        path = tmp_path / "other.odtc"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                new = {"step.so": library, "manifest.json": json.dumps(manifest).encode()}
                archive.writestr(name, new.get(name, content))
        with pytest.raises(ArtifactError, match=text):
            odtc.load(path)
