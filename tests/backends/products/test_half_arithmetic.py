"""The arithmetic that mixed precision is compiled to, and its entry in the artifact."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.digits import digits_model
from odtc.backends import targets
from odtc.backends.targets import Target
from odtc.core.artifact import bundle as bundles
from odtc.frontend.optimizers.update import LOSS_SCALE
from tests.backends.kernels.machine_code import tool

A76 = "android-cpu{mcpu=cortex-a76}"
A73 = "android-cpu{mcpu=cortex-a73}"
WITHOUT = "android-cpu{mattr=+neon:+dotprod:-fullfp16}"


def compiled(
    folder: Path, target: str | Target, precision: str, update=None, **options
) -> odtc.Artifact:
    path = folder / "model.onnx"
    onnx.save(digits_model(), path)
    given = {"batch": 32, **options}
    return odtc.compile(path, target, precision=precision, optimizer=update, **given)


def half_multiply_adds(artifact: odtc.Artifact, folder: Path) -> int:
    """How many instructions of the library multiply and add vectors of float16, on ARM or x86."""
    library = folder / "step.so"
    library.write_bytes((artifact._bundle.root / bundles.LIBRARY).read_bytes())
    command = [tool("llvm-objdump"), "--disassemble", "--no-show-raw-insn", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return len(re.findall(r"fmla\s+v\d+\.8h|vfmadd\d+ph\s.*%zmm", text))


def about_arithmetic(artifact: odtc.Artifact) -> list[str]:
    """The notes that say what is multiplied in which type."""
    return [note for note in artifact.manifest.notes if "float16" in note]


def test_a_core_with_float16_multiplies_it(tmp_path: Path) -> None:
    artifact = compiled(tmp_path, A76, "mixed")
    # One convolution, in training without the rectifier that its pooling applies, and the gradient
    # of its data; the gradients of both convolutions' weights; a fully connected layer and its
    # gradients. The first convolution has nine terms, the last layer ten rows.
    (note,) = artifact.manifest.notes
    assert note == "8 kernels multiply float16 and add up float32; the loss is scaled"
    assert half_multiply_adds(artifact, tmp_path) > 100
    # Gradients are multiplied in float16 too, where small ones would vanish.
    assert artifact.manifest.update["loss_scale"] == {
        "initial": 65536.0,
        "growth": 2.0,
        "backoff": 0.5,
        "interval": 2000,
    }
    assert LOSS_SCALE in {item.spec.name for item in artifact.manifest.arguments}


@pytest.mark.parametrize("budget", ["auto", 1 << 20])
def test_a_step_with_a_budget_counts_them_too(budget: str | int, tmp_path: Path) -> None:
    """Kernels whose calls have an order hold statements in place of blocks."""
    (note, *_) = about_arithmetic(compiled(tmp_path, A76, "mixed", memory_budget=budget))
    assert note == "8 kernels multiply float16 and add up float32; the loss is scaled"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (8, "no kernel multiplies float16, as none would gain by it; the loss is scaled"),
        (64, "1 kernel multiplies float16 and adds up float32; the loss is scaled"),
    ],
)
def test_few_kernels_are_told_in_words(columns: int, said: str, tmp_path: Path) -> None:
    """Of a layer with a frozen matrix there is one product."""
    weights = [
        numpy_helper.from_array(np.ones(shape, np.float32), name)
        for name, shape in (("w", (columns, columns)), ("b", (columns,)))
    ]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    image, scores = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, columns]) for name in "xy"
    )
    graph = helper.make_graph(nodes, "layer", [image], [scores], weights)
    onnx.save(helper.make_model(graph), path := tmp_path / "layer.onnx")
    artifact = odtc.compile(path, "host-vulkan{gpu=mali-g78}", precision="mixed", train=["b"])
    assert about_arithmetic(artifact) == [said]


def test_a_loss_scale_that_is_given_stays(tmp_path: Path) -> None:
    update = odtc.Update(odtc.SGD(), loss_scale=odtc.LossScale(8.0))
    assert compiled(tmp_path, A76, "mixed", update).manifest.update["loss_scale"]["initial"] == 8.0


@pytest.mark.parametrize("target", [A73, WITHOUT])
def test_a_core_without_it_multiplies_float32(target: str, tmp_path: Path) -> None:
    artifact = compiled(tmp_path, target, "mixed")
    assert about_arithmetic(artifact) == [f"arithmetic is float32: {target} has none for float16"]
    assert artifact.manifest.update["loss_scale"] is None
    assert half_multiply_adds(artifact, tmp_path) == 0


def test_so_do_x86_cpus_that_have_it(tmp_path: Path) -> None:
    host = replace(targets._host("Linux", "x86_64"), mcpu="sapphirerapids")
    artifact = compiled(tmp_path, host, "mixed")
    assert "multiply float16" in artifact.manifest.notes[0]
    assert half_multiply_adds(artifact, tmp_path) > 100


def test_float32_multiplies_float32(tmp_path: Path) -> None:
    artifact = compiled(tmp_path, A76, "float32")
    assert about_arithmetic(artifact) == []
    assert half_multiply_adds(artifact, tmp_path) == 0
