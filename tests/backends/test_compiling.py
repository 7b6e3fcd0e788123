"""Kernels that are compiled apart: the library is the same, computes the same, and is made once."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.artifact import Artifact
from odtc.backends import vector_math
from odtc.backends.objects import kernel_objects
from odtc.backends.objects.kernel_store import kernel_store
from odtc.core.artifact.bundle import LIBRARY
from odtc.core.process import side_by_side as module
from odtc.core.process.side_by_side import side_by_side
from tests.caches import without_steps
from tests.mlp import mlp

SIZE, CLASSES = 24, 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A multilayer perceptron."""
    path = tmp_path / "mlp.onnx"
    onnx.save(mlp(SIZE, SIZE, CLASSES), path)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", without_steps(tmp_path / "cache"))
    return kernel_store().folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are compiled, as they are called in their object files."""
    names: list[str] = []
    compiled = kernel_objects._compiled

    def counted(kernel, name, target) -> bytes:
        names.append(name)
        return compiled(kernel, name, target)

    monkeypatch.setattr(kernel_objects, "_compiled", counted)
    return names


def losses(artifact: Artifact) -> list[float]:
    trainer = artifact.trainer()
    x, y = np.linspace(-1, 1, 4 * SIZE, dtype=np.float32).reshape(4, SIZE), np.arange(4)
    return [trainer.step(x, y, 0.1) for _ in range(3)]


def library(artifact: Artifact, folder: Path) -> bytes:
    artifact.save(folder / "m.odtc")
    with ZipFile(folder / "m.odtc") as bundle:
        return bundle.read(LIBRARY)


def test_cores_do_not_change_a_library(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for cores in (1, 2, 7):
        monkeypatch.setenv("XDG_CACHE_HOME", without_steps(tmp_path / f"cache-{cores}"))
        monkeypatch.setattr(module.os, "sched_getaffinity", lambda _, n=cores: set(range(n)))
        found.append(library(odtc.compile(model, "host-cpu{threads=1}", seed=3), tmp_path))
    assert found[0] == found[1] == found[2]


def test_a_kernel_is_compiled_once(
    model: Path, tmp_path: Path, cache: Path, made: list[str]
) -> None:
    first = odtc.compile(model, "host-cpu{threads=1}")
    assert len(made) == len(set(made)) == kernel_store().size().entries > 5
    again = odtc.compile(model, "host-cpu{threads=1}")
    assert len(made) == len(set(made))
    assert library(first, tmp_path) == library(again, tmp_path)


def test_an_option_compiles_what_it_changes(model: Path, cache: Path, made: list[str]) -> None:
    odtc.compile(model, optimizer="sgd")
    before = len(made)
    odtc.compile(model, optimizer="sgd{momentum=0.9}")
    # The updates, and no product.
    assert 0 < len(made) - before < before / 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "another's"])
def test_what_is_damaged_is_compiled_again(
    damage: str, model: Path, tmp_path: Path, cache: Path, made: list[str]
) -> None:
    right = library(odtc.compile(model, "host-cpu{threads=1}"), tmp_path)
    files = sorted(path for path in cache.rglob("*") if path.is_file())
    contents = [path.read_bytes() for path in files]
    for number, (path, content) in enumerate(zip(files, contents, strict=True)):
        middle = len(content) // 2
        path.write_bytes(
            {
                "flipped": content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :],
                "cut": content[:middle],
                "emptied": b"",
                # Whole, but of another kernel.
                "another's": contents[number - 1],
            }[damage]
        )
    before = len(made)
    assert library(odtc.compile(model, "host-cpu{threads=1}"), tmp_path) == right
    assert len(made) == 2 * before


def test_without_a_cache_the_same_is_made(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for place in ("usual", "dev/null", "open"):
        folder = Path("/dev/null") if place == "dev/null" else tmp_path / place
        if place == "open":
            (folder / "odtc" / "kernels").mkdir(parents=True)
            (folder / "odtc" / "kernels").chmod(0o777)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        found.append(library(odtc.compile(model, "host-cpu{threads=1}"), tmp_path))
    assert found[0] == found[1] == found[2]
    assert not list((tmp_path / "open" / "odtc" / "kernels").iterdir())


def test_what_makes_code_is_part_of_the_key(
    model: Path, cache: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odtc.compile(model)
    kernels = len(made)
    before = set(made)
    for change in (
        lambda: monkeypatch.setattr(kernel_objects, "_toolchain", lambda: "another TVM"),
        lambda: monkeypatch.setattr(kernel_objects, "pass_context", lambda: "another option"),
    ):
        change()
        made.clear()
        odtc.compile(model)
        assert len(made) == kernels
        assert not set(made) & before
        before |= set(made)
    made.clear()
    odtc.compile(model, "android-cpu")
    assert not set(made) & before


def test_the_cpu_is_part_of_the_key(model: Path, cache: Path, made: list[str]) -> None:
    """Both have the same vectors, so that their kernels are alike; instructions are not."""
    found = []
    for cpu in ("cortex-a55", "cortex-a76"):
        made.clear()
        odtc.compile(model, f"android-cpu{{mcpu={cpu}}}")
        found.append(set(made))
    assert found[0]
    assert not found[0] & found[1]


def test_all_that_lowers_for_llvm_is_part_of_the_key() -> None:
    """A rule that another module registered would change code under the same key."""
    root = Path(vector_math.__file__).parents[1]
    known = {Path(path).resolve() for path in kernel_objects._SOURCES}
    for file in root.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "register_intrin_lowering(" in text and 'target="llvm"' in text:
            assert file.resolve() in known


def test_the_same_bits_as_all_at_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from odtc.driver import splitting

    apart = losses(odtc.compile(model, seed=3))
    build, called = splitting.compile_planned, []

    def whole(*given: Any, **more: Any) -> Any:
        called.append(more["apart"])
        return build(*given, **{**more, "apart": False})

    monkeypatch.setattr(splitting, "compile_planned", whole)
    assert losses(odtc.compile(model, seed=3)) == apart
    assert called == [True]


def test_work_ends_at_the_first_error() -> None:
    begun = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError(item)
        return -item

    assert side_by_side(lambda item: -item, range(100)) == [-item for item in range(100)]
    assert side_by_side(work, []) == []
    with pytest.raises(ValueError, match="1"):
        side_by_side(work, range(10_000))
    assert len(begun) < 10_000


@pytest.mark.usefixtures("cache")
def test_an_address_that_shares_an_expression_with_an_index_is_compiled(tmp_path: Path) -> None:
    """Each thread's 512 channels of 3 x 3 weights are as many as bytes of its workspace."""
    rng = np.random.default_rng(0)
    shapes = {"into": (1024, 3, 1, 1), "out_of": (12, 1024, 3, 3), "head": (12, CLASSES)}
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.05, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "into"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["positive"]),
        helper.make_node("Conv", ["positive", "out_of"], ["narrow"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["narrow"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "head"], ["logits"]),
    ]
    x, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3, 8, 8]), ("logits", ["n", CLASSES]))
    )
    path = tmp_path / "wide.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "wide", [x], [logits], weights)), path)
    images = rng.normal(size=(4, 3, 8, 8)).astype(np.float32)
    found = []
    for threads in (1, 2):
        target = f"host-cpu{{mcpu=x86-64-v3,threads={threads}}}"
        trainer = odtc.compile(path, target, batch=4).trainer()
        found.append([trainer.step(images, np.arange(4), 0.1) for _ in range(3)])
    assert found[0] == found[1]
