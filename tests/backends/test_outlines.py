"""Kernels that are kept are not lowered again, and the library is the same to the bit."""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import onnx
import pytest
import tvm
from tvm import tirx

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.models.digits import digits_model
from odtc.backends import lowering
from odtc.backends.objects import kernel_objects, outlines
from odtc.backends.objects.kernel_store import kernel_store, outline_store
from odtc.core import version
from odtc.core.artifact.bundle import LIBRARY
from odtc.core.disk import package_files
from odtc.core.disk.content_store import nothing_kept
from odtc.core.ir.outline_marks import MADE_FROM, REPLACEABLE, WORKSPACES, WRITTEN_OVER
from odtc.passes.ir.by_kernel import ByKernel
from odtc.passes.ir.calls import workspaces_in
from odtc.passes.schedule.write_over import written_over
from tests.caches import with_outlines
from tests.mlp import mlp
from tests.numeric.plans.test_memory_budget import tower

TARGET = "host-cpu{threads=2}"
CHANGED = "sgd{momentum=0.9}"


def _perceptron() -> onnx.ModelProto:
    return mlp(24, 24, 5)


def _convolutions() -> onnx.ModelProto:
    return tower(2)


def _transformer() -> onnx.ModelProto:
    return decoder(DecoderShape(2, hidden=16, heads=2, shared=1, inner=24, vocabulary=32, length=8))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, without steps."""
    path = with_outlines(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", path)
    return Path(path) / "odtc"


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels whose blocks are lowered, by name."""
    names: list[str] = []
    run = ByKernel.run

    def counted(self: ByKernel, module: tvm.IRModule) -> tvm.IRModule:
        made = run(self, module)
        for variable, kernel in module.functions_items():
            if not kernel.same_as(made[variable.name_hint]):
                names.append(variable.name_hint)
        return made

    monkeypatch.setattr(ByKernel, "run", counted)
    return names


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A multilayer perceptron."""
    path = tmp_path / "mlp.onnx"
    onnx.save(_perceptron(), path)
    return path


def library(
    model: Path, optimizer: str = "sgd", loss: str = "cross-entropy", target: str = TARGET
) -> bytes:
    artifact = odtc.compile(model, target, batch=4, loss=loss, optimizer=optimizer)
    artifact.save(model.with_suffix(".odtc"))
    with ZipFile(model.with_suffix(".odtc")) as bundle:
        return bundle.read(LIBRARY)


@pytest.mark.parametrize(
    ("make", "loss", "target"),
    [
        (_perceptron, "cross-entropy", TARGET),
        (_perceptron, "cross-entropy", "linux-arm64-cpu{mcpu=cortex-a76+cortex-a53}"),
        (_convolutions, "cross-entropy", TARGET),
        pytest.param(*(_transformer, "cross-entropy{axis=-1}", TARGET), marks=pytest.mark.slow),
    ],
)
def test_the_library_is_the_same(
    make: Callable[[], onnx.ModelProto], loss: str, target: str, tmp_path: Path, lowered: list[str]
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(make(), model)
    with nothing_kept():
        right = library(model, loss=loss, target=target)
        changed = library(model, CHANGED, loss, target)
    lowered.clear()
    assert library(model, loss=loss, target=target) == right
    kernels = len(lowered)
    assert outline_store().size().entries == kernels > 5
    lowered.clear()
    assert library(model, loss=loss, target=target) == right
    assert not lowered
    assert library(model, CHANGED, loss, target) == changed
    # The updates, and no product.
    assert 0 < len(lowered) < kernels / 2


def test_kernels_that_multiply_float16_are_counted_each_time(tmp_path: Path) -> None:
    """A note of the artifact says how many there are, and the library is bound to its notes."""
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    target = "android-cpu{mcpu=cortex-a55}"
    found = []
    for _ in range(2):
        artifact = odtc.compile(path, target, batch=4, precision="mixed")
        found.append([note for note in artifact.manifest.notes if "multiply float16" in note])
    assert found[0] == found[1]
    assert found[0][0].startswith("5 kernels")


def test_object_files_that_are_gone_are_made_again(model: Path, lowered: list[str]) -> None:
    right = library(model)
    lowered.clear()
    kernel_store().clear()
    assert library(model) == right
    assert len(lowered) == kernel_store().size().entries


def test_a_form_that_was_never_made_is_made(model: Path, lowered: list[str]) -> None:
    """As where another step has the same kernel, and no result of its lies over an operand."""
    right = library(model)
    store = outline_store()
    for path in store.folder.rglob("??*"):
        if path.is_file():
            key = path.parent.name + path.name
            entry = json.loads(store.get(key) or b"")
            entry["code"] = {}
            store.put(key, json.dumps(entry).encode())
    lowered.clear()
    assert library(model) == right
    assert lowered
    lowered.clear()
    assert library(model) == right
    assert not lowered


def test_all_that_makes_code_counts(
    model: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library(model)
    for change in (
        lambda: monkeypatch.setattr(lowering, "pass_context", lambda: "another option"),
        lambda: monkeypatch.setattr(outlines, "sources", lambda: "another odtc"),
        lambda: monkeypatch.setattr(outlines, "libraries", lambda: "another TVM"),
    ):
        change()
        lowered.clear()
        library(model)
        assert lowered
        lowered.clear()
        library(model)
        assert not lowered
    for target in ("host-cpu{threads=1}", "android-cpu", "android-cpu{mcpu=cortex-a76}"):
        lowered.clear()
        odtc.compile(model, target)
        assert lowered, target
    odtc.compile(model, TARGET, tuned=False)
    lowered.clear()
    odtc.compile(model, TARGET, tuned=False)
    assert not lowered


def test_what_nobody_can_tell_recalls_nothing() -> None:
    """A function says no more than its address, which another one has in the next process."""
    assert outlines.recall_phase(outlines.Outlines.KEPT, ["a target", None])
    assert not outlines.recall_phase(outlines.Outlines.KEPT, ["a target", lambda _: None])
    assert not outlines.recall_phase(outlines.Outlines.NEVER, ["a target", None])


def test_files_that_are_younger_than_the_process_recall_nothing(
    model: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = library(model)
    monkeypatch.setattr(version, "LOADED_NS", 0)
    assert not package_files.is_as_loaded()
    lowered.clear()
    assert library(model) == right
    assert lowered


def test_what_is_damaged_is_lowered_again(model: Path, lowered: list[str]) -> None:
    right = library(model)
    for path in outline_store().folder.rglob("??*"):
        if path.is_file():
            content = path.read_bytes()
            path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    lowered.clear()
    assert library(model) == right
    assert lowered


def test_outlines_are_no_part_of_what_is_compiled(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    compiled = kernel_objects._compiled

    def noted(kernel, name, target) -> bytes:
        seen.append(dict(kernel.attrs.items()))
        return compiled(kernel, name, target)

    monkeypatch.setattr(kernel_objects, "_compiled", noted)
    library(model)
    library(model, CHANGED)
    assert seen
    assert not any(set(outlines._MARKS) & each.keys() for each in seen)


def test_each_form_of_a_kernel_has_its_code() -> None:
    """In place, a kernel has an argument less: its code is another's."""
    buffers = [tirx.decl_buffer([4], "float32") for _ in range(2)]
    marks = {MADE_FROM: "ab" * 32, REPLACEABLE: [0], WORKSPACES: {"1": 0, "2": 64}}
    kernel = tirx.PrimFunc(buffers, tirx.Evaluate(0)).with_attrs(marks)
    in_place = written_over(kernel, 0)
    outlines.keep(kernel, ["its code", "its code for another CPU"])
    outlines.keep(in_place, ["the code in place"])
    known = outlines._outline(kernel, outline_store().get("ab" * 32) or b"")
    assert outlines.is_outline(known)
    assert outlines.code_of(known) == ["its code", "its code for another CPU"]
    assert outlines.code_of(written_over(known, 0)) == ["the code in place"]
    assert workspaces_in(tvm.IRModule({"known": known}), 1).popitem()[1] == 0
    assert workspaces_in(tvm.IRModule({"known": known}), 2).popitem()[1] == 64
    with pytest.raises(outlines.NotKeptError):
        outlines.code_of(known.with_attr(WRITTEN_OVER, 1))
