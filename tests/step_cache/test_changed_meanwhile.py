"""Steps of files that changed during compilation are not cached; all files of a model count."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core import version
from odtc.driver import building
from odtc.step_cache.store import step_store
from tests.step_cache.model_files import CLASSES, SIZE, wait_for_the_clock, write_model

Changes = Mapping[str, Callable[[], object]]


def changes(model: Path, other: Path) -> Changes:
    """Changes that others may make to a model's files while it is compiled."""
    data, others = (each.with_name("mlp.data") for each in (model, other))
    return {
        "other weights": lambda: shutil.copyfile(others, data),
        "weights in the model": lambda: shutil.copyfile(write_model(other.parent), model),
        "replaced": lambda: os.replace(others, data),
        "cut": lambda: data.write_bytes(b""),
        "damaged": lambda: model.write_bytes(b"no model"),
        "gone": model.unlink,
        "gone weights": data.unlink,
    }


def compile_while(monkeypatch: pytest.MonkeyPatch, changed: Callable[[], object]) -> None:
    """Has others change something before, and after, all reading of the next compile."""
    build = building.build

    def read_between(*given: Any):
        before = build(*given)
        changed()
        # The old file or the new one may have been read: which is unknown.
        with suppress(odtc.OdtcError):
            return build(*given)
        return before

    monkeypatch.setattr(building, "build", read_between)


CHANGES = tuple(changes(Path("model.onnx"), Path("other.onnx")))


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what in CHANGES:
        model, other = (
            write_model(tmp_path / what / str(n), beside=True, seed=n) for n in range(2)
        )
        with monkeypatch.context() as patched:
            compile_while(patched, changes(model, other)[what])
            odtc.compile(model).close()
        assert step_store().size().entries == 0, what


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_hides_no_change(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    model, other = (write_model(tmp_path / name, seed=n) for n, name in enumerate("ab"))
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + hours * 3600 * 10**9)
    compile_while(monkeypatch, lambda: shutil.copyfile(other, model))
    odtc.compile(model)
    assert step_store().size().entries == 0


@pytest.mark.parametrize("option", ["loss", "database"])
def test_a_file_of_an_option_that_changes_meanwhile_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    model = write_model(tmp_path / "m")
    named = tmp_path / "named.onnx"
    content = loss_graph().SerializeToString() if option == "loss" else b""
    if option == "loss":
        named.write_bytes(content)
        wait_for_the_clock(named)
    given: dict[str, Any] = {option: str(named)}
    with monkeypatch.context() as patched:
        compile_while(patched, lambda: named.write_bytes(content))
        odtc.compile(model, **given)
    assert step_store().size().entries == 0
    wait_for_the_clock(named)
    odtc.compile(model, **given)
    assert step_store().size().entries == 1


def loss_graph() -> onnx.ModelProto:
    """The mean of squares of what is missing."""
    nodes = [
        helper.make_node("Sub", ["y", "t"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["q"]),
        helper.make_node("ReduceMean", ["q"], ["l"], keepdims=0),
    ]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, CLASSES]) for name in ("y", "t")
    ]
    found = helper.make_tensor_value_info("l", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "loss", given, [found])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_what_is_upgraded_while_it_compiles_keeps_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_while(monkeypatch, lambda: monkeypatch.setattr(version, "LOADED_NS", 0))
    odtc.compile(write_model(tmp_path / "m"))
    assert step_store().size().entries == 0


FILES = ("one.data", "two.data")


def write_constants(path: Path, name: str) -> None:
    """A model with two constants of one name, each in a file of its own."""
    tensors = []
    for file in FILES:
        path.with_name(file).write_bytes(np.ones((SIZE, CLASSES), np.float32).tobytes())
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[SIZE, CLASSES])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=file)
        tensors.append(tensor)
    weight = numpy_helper.from_array(np.eye(SIZE, CLASSES, dtype=np.float32), "w")
    nodes = [
        helper.make_node("Constant", [], ["one"], value=tensors[0]),
        helper.make_node("Constant", [], ["two"], value=tensors[1]),
        helper.make_node("Sum", ["w", "one", "two"], ["v"]),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    given, found = (
        helper.make_tensor_value_info(side, TensorProto.FLOAT, [4, size])
        for side, size in (("x", SIZE), ("y", CLASSES))
    )
    graph = helper.make_graph(nodes, "g", [given], [found], [weight])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    wait_for_the_clock(path)


@pytest.mark.parametrize("name", ["", "value"])
def test_each_file_counts_where_tensors_share_a_name(
    tmp_path: Path, cache: Path, built: list[str], name: str
) -> None:
    path = tmp_path / "m.onnx"
    write_constants(path, name)
    odtc.compile(path)
    odtc.compile(path)
    assert len(built) == 1
    for number, file in enumerate(FILES):
        (tmp_path / file).write_bytes(np.zeros((SIZE, CLASSES), np.float32).tobytes())
        wait_for_the_clock(tmp_path / file)
        odtc.compile(path)
        assert len(built) == 2 + number
