"""Two steps that could differ have two keys."""

import argparse
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import odtc
from odtc.autoschedule.tuning.record import Device
from odtc.backends.objects.link import Linker
from odtc.backends.targets import parse_target
from odtc.cli.compiling.step_options import add_step_options, step_options
from odtc.core import version
from odtc.core.disk import package_files
from odtc.core.errors import DeviceError
from odtc.core.found_gpu import FoundGpu
from odtc.driver.layouts import DEFAULT
from odtc.driver.options.option import kinds_of
from odtc.driver.options.step_options import StepOptions
from odtc.step_cache import made_by
from odtc.step_cache.key import step_key

TARGET = parse_target("host-cpu")
# Of each option its default, and others.
OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "batch": (None, 1, 2),
    "loss": ("cross-entropy", "mse", {"y": "mse"}, {"y": (0.5, "mse")}, "huber{delta=2}"),
    "eval_batch": ((), 1, (8,), (1, 8)),
    "optimizer": (None, "adam", "adam{beta1=0.8}", odtc.Update("adam", clip_norm=1.0)),
    "train": (None, "*", ("*",), ("w", "b"), ("b", "w")),
    "freeze": ((), "w"),
    "freeze_batch_norm": (False, True),
    "lora": (None, "rank=2", odtc.LoRA(rank=3)),
    "quantize": (None, "int4", "int4{block=64}", "int8"),
    "shape": (None, {"n": 3}, {"n": 4}, {"m": 3}, {"x": (1, 2)}),
    "lengths": ((), 4, (8,), (4, 8)),
    "batch_axis": (None, {"x": 0}, {"x": None}),
    "set": (None, {"k": 1}, {"k": 1.0}, {"k": True}, {"k": [1]}, {"k": np.ones(2)}),
    "normalize": (None, "imagenet", "mean=0.5,std=0.5", odtc.Normalize(0.5, 0.25)),
    "precision": ("float32", "mixed"),
    "dropout": (True, False),
    "weights_beside": (False, True),
    "seed": (0, 1),
    "micro_batches": (None, 1, 2),
    "allow_split_batchnorm": (False, True),
    "allow_half_activations": (False, True),
    "offload": (False, True),
    "tuned": (True, False),
    "database": (None, "records.jsonl", Path("others.jsonl")),
    "device": (None, Device("a", "b", "", ""), Device("b", "b", "", "")),
    "layout": (DEFAULT, "auto"),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    path = tmp_path / "model.onnx"
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y])), path)
    return path


def key(model: Path, **options: Any) -> str | None:
    defaults = {name: values[0] for name, values in OPTIONS.items()}
    return step_key(model, TARGET, StepOptions(**{**defaults, **options}), None)


def test_all_options_are_here() -> None:
    assert OPTIONS.keys() == kinds_of(StepOptions).keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_counts(model: Path, name: str) -> None:
    keys = [key(model, **{name: value}) for value in OPTIONS[name]]
    assert None not in keys
    # A text in a list is that text.
    same = 1 if name == "train" else 0
    assert len(set(keys)) >= len(keys) - same
    assert keys == [key(model, **{name: value}) for value in OPTIONS[name]]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {}),
        (
            "--batch 2 --optimizer adam --no-dropout",
            {"batch": 2, "optimizer": "adam", "dropout": False},
        ),
        (
            "--loss y=mse --shape n=3 --set k=1",
            {"loss": {"y": "mse"}, "shape": {"n": 3}, "set": {"k": 1}},
        ),
        (
            "--normalize mean=0.5,std=0.25",
            {"normalize": odtc.Normalize(0.5, 0.25)},
        ),
        (
            "--lora rank=2 --train w b --freeze c",
            {"lora": odtc.LoRA(rank=2), "train": ["w", "b"], "freeze": ("c",)},
        ),
    ],
)
def test_the_command_and_the_function_share_what_is_kept(
    model: Path, words: str, options: dict[str, Any]
) -> None:
    parser = argparse.ArgumentParser()
    add_step_options(parser)
    asked = step_options(parser.parse_args([str(model), *words.split()]))
    same = StepOptions(**options)
    assert step_key(model, TARGET, asked, None) == step_key(model, TARGET, same, None)


def test_what_is_compiled_for_counts(model: Path) -> None:
    texts = ("host-cpu", "host-cpu{threads=1}", "host-cpu{mcpu=znver3}", "android-cpu")
    every = [step_key(model, parse_target(text), StepOptions(), None) for text in texts]
    every += [step_key(model, TARGET, StepOptions(), budget) for budget in (1, 2, "auto")]
    gpus = ("android-opencl", "host-opencl", "host-vulkan", "host-opencl{gpu=mali-g78}")
    every += [step_key(model, parse_target(text), StepOptions(), None) for text in gpus]
    assert None not in every
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    ("target", "options", "counts"),
    [
        ("host-opencl", {"database": "records.jsonl"}, True),
        ("host-vulkan", {"database": "records.jsonl"}, True),
        # Of none of these does anybody ask the driver.
        ("host-opencl", {}, False),
        ("host-opencl", {"database": "records.jsonl", "tuned": False}, False),
        ("host-opencl", {"database": "records.jsonl", "device": Device("a", "b", "", "")}, False),
        ("android-opencl", {"database": "records.jsonl"}, False),
    ],
)
def test_a_driver_counts_where_there_are_measurements(
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    options: dict[str, Any],
    counts: bool,
) -> None:
    monkeypatch.chdir(model.parent)
    # What somebody has tuned on this machine is no measurement of the test's.
    monkeypatch.setenv("XDG_DATA_HOME", str(model.parent))
    Path("records.jsonl").write_text("{}")
    keys = set()
    for driver in ("1", "1", "2", None):

        def found(kind: str, driver: str | None = driver) -> FoundGpu:
            if driver is None:
                raise DeviceError(f"there is no GPU of {kind}")
            return FoundGpu("a GPU", driver)

        monkeypatch.setattr(made_by, "gpu_here", found)
        keys.add(step_key(model, parse_target(target), StepOptions(**options), None))
    assert None not in keys
    assert len(keys) == (3 if counts else 1)


def test_a_version_that_this_process_has_not_loaded_gives_no_key(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key(model)
    # As if all files had been upgraded since.
    monkeypatch.setattr(version, "LOADED_NS", 0)
    assert key(model) is None


def test_the_model_counts(model: Path) -> None:
    before = key(model)
    renamed = model.rename(model.with_name("other.onnx"))
    assert key(renamed) not in (before, None)
    renamed.rename(model)
    assert key(model) == before
    with model.open("ab") as file:
        file.write(b"\x08\x08")
    assert key(model) not in (before, None)
    assert key(model.with_name("missing.onnx")) is None
    assert key(model.parent) is None


def test_files_that_options_name_count(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    loss = model.with_name("loss.onnx")
    loss.write_bytes(model.read_bytes())
    options = ({"database": "records.jsonl"}, {"layout": "plan.json"}, {"loss": "loss.onnx"})
    for given in options:
        (name,) = given.values()
        before = key(model, **given)
        with Path(name).open("ab") as file:
            file.write(b"\x08\x08")
        assert key(model, **given) not in (before, None)


def test_the_database_of_the_user_counts(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    from odtc.autoschedule.tuning.database import user_database

    before = key(model)
    user_database().parent.mkdir(parents=True)
    user_database().write_text("{}")
    assert key(model) not in (before, None)


def test_a_loss_with_files_of_its_own_is_not_kept(model: Path) -> None:
    loss = model.with_name("loss.onnx")
    weight = onnx.numpy_helper.from_array(np.ones(600, np.float32), "w")
    read = onnx.load(model)
    read.graph.initializer.append(weight)
    onnx.save(read, loss, save_as_external_data=True, location="w.data", size_threshold=0)
    assert key(model, loss=str(loss)) is None
    loss.write_bytes(b"no model")
    assert key(model, loss=str(loss)) is None


def test_values_that_nobody_knows_are_not_kept(model: Path) -> None:
    assert key(model, loss="no such loss") is None
    itself: list[Any] = []
    itself.append(itself)
    for value in (object(), np.array([[1], None], object), itself, 10**5000, {"a": {1}}):
        assert key(model, set={"k": value}) is None
    assert key(model, layout="a\0b") is None


def test_what_is_derived_of_a_class_is_not_kept(model: Path) -> None:
    class Slower(odtc.SGD):
        """An optimizer whose rule is in no file of this package."""

    class Doubled(odtc.MSE):
        """A loss whose rule is not, either."""

    class Thinner(odtc.LoRA):
        """The same."""

    groups = [odtc.Group("*", {"momentum": 0.5})]
    for optimizer in (Slower(), odtc.Update(Slower()), odtc.Update(Slower(), groups=groups)):
        assert key(model, optimizer=optimizer) is None
    for loss in (Doubled(), {"y": Doubled()}, {"y": (0.5, Doubled())}):
        assert key(model, loss=loss) is None
    assert key(model, lora=Thinner(rank=2)) is None


def test_the_versions_and_the_machine_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "part").mkdir(parents=True)
    (package / "part" / "a.py").write_text("1")
    sources = package_files.sources_of.__wrapped__
    before = sources(package)
    (package / "part" / "__pycache__").mkdir()
    (package / "part" / "__pycache__" / "a.pyc").write_text("1")
    assert sources(package) == before
    found = {before}
    (package / "part" / "a.py").write_text("2")
    found.add(sources(package))
    (package / "part" / "a.py").rename(package / "part" / "b.py")
    found.add(sources(package))
    (package / "link").symlink_to(package / "part")
    found.add(sources(package))
    assert len(found) == 4

    monkeypatch.setattr(package_files, "_ROOT", package)
    # The files of a test are younger than the process.
    assert not package_files.is_as_loaded()
    monkeypatch.setattr(version, "LOADED_NS", time.time_ns() + 10**9)
    assert package_files.is_as_loaded()

    text = made_by.made_by(TARGET)
    said = json.loads(text)
    assert all(said.values())
    monkeypatch.setattr(made_by, "cores", lambda: 64)
    assert made_by.made_by(TARGET) != text
    assert made_by.made_by(replace(TARGET, mcpu="znver3")) != text


def test_files_of_the_package_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = set()
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(name)
        monkeypatch.setattr(package_files, "_ROOT", tmp_path / name)
        said.add(made_by.made_by(TARGET))
    assert len(said) == 2


def test_the_linker_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = set()
    for name, content in (("ld.lld", "1"), ("ld.lld", "22"), ("ld.lld-19", "22")):
        program = tmp_path / name
        program.write_text(content)
        os.utime(program, (1, 1))
        linker = Linker((str(program),))
        monkeypatch.setattr(made_by, "find_linker", lambda _, found=linker: found)
        said.add(made_by.made_by(TARGET))
    assert len(said) == 3
