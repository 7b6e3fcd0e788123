"""A JVM trains through the native runtime, to the bits of the trainer of Python."""

import os
import re
import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.java import classes_jar, jni_folder
from odtc.core.errors import BuildError
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.android.build import JAVA
from odtc.runtime_rpc.native.build import FOLDER, compile_runtime, compiler_of_c
from tests.native.parity import TARGET, bits, tvm_trainer, unpacked
from tests.native.sanitized import PROGRAMS
from tests.needs import needs
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    IGNORED,
    LENGTHS,
    LOSS,
    WORDS,
    decoder,
    save,
)

STEPS = 4
# Around the example of docs/native_runtime.md.
_AROUND = """
import io.odtc.Trainer;
class Page {
  static void example(float[] pixels, int[] classes) {
%s
  }
}
"""


def has_jdk() -> bool:
    with suppress(BuildError):
        return bool(jni_folder())
    return False


pytestmark = needs(cc_command(), has_jdk(), reason="no compiler, or no JDK")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes of an app's archive, and this machine's runtime for the JVM."""
    folder, include = tmp_path_factory.mktemp("jvm"), jni_folder()
    (jar := folder / "classes.jar").write_bytes(classes_jar())
    programs = [str(PROGRAMS / name) for name in ("Demo.java", "Lengths.java")]
    command = ["javac", "-Xlint:all", "-Werror", "-cp", str(jar), "-d", str(folder), *programs]
    subprocess.run(command, check=True)
    flags = (f"-I{include}", f"-I{include}/linux", f"-I{FOLDER}", "-Wall", "-Wextra", "-Werror")
    output = folder / "libodtc.so"
    compile_runtime(compiler_of_c(), output, *flags, "-s", str(JAVA / "odtc_jni.c"))
    return folder


def test_the_runtime_is_small(classes: Path) -> None:
    assert (classes / "libodtc.so").stat().st_size <= 64 << 10


def test_the_example_of_the_page_compiles(classes: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "native_runtime.md").read_text()
    (code,) = re.findall(r"```java\n(.*?)```", page, re.S)
    (source := tmp_path / "Page.java").write_text(_AROUND % code)
    command = ["javac", "-Xlint:all", "-Werror", "-cp", str(classes / "classes.jar")]
    subprocess.run([*command, "-d", str(tmp_path), str(source)], check=True)


def test_codes_are_those_of_the_header() -> None:
    header = re.findall(r"^  ODTC_(\w+) = (\d+),? ", (FOLDER / "odtc.h").read_text(), re.M)
    java = (JAVA / "io/odtc/TrainerException.java").read_text()
    assert re.findall(r"public static final int (\w+) = (\d+);", java) == header
    assert len(header) == 15


def run_in_jvm(classes: Path, program: str, folder: Path, *words: str) -> list[str]:
    """What a program prints, whose first word is a folder of an artifact's members."""
    path = f"{classes}:{classes / 'classes.jar'}"
    command = ["java", f"-Djava.library.path={classes}", "-cp", path, program]
    # The JVM's own checks of what a native library calls.
    command.insert(1, "-Xcheck:jni")
    done = subprocess.run(
        [*command, str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("WARNING")]


def as_java(value: float) -> str:
    """The bits of a double, as the programs print them."""
    return bytes.fromhex(bits(value))[::-1].hex()


def test_it_trains_to_the_same_bits(classes: Path, tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    artifact = odtc.compile(path, TARGET, batch=8, optimizer=odtc.AdamW())
    folder = unpacked(artifact, tmp_path / "of 😀é")
    shutil.copy(folder / "step.so", folder / "libdigits_kernels.so")
    before = {path.name for path in folder.iterdir()}
    lines = run_in_jvm(classes, "Demo", folder, str(STEPS), "libdigits_kernels.so")
    made = {path.name for path in folder.iterdir()} - before
    assert made == {"jvm", "c😀é.ckpt"}
    image = (np.arange(8 * 64) * 37 % 101).astype(np.float32) / np.float32(50) - np.float32(1)
    with tvm_trainer(artifact, threads=1) as trainer:
        x, y = image.reshape(8, 1, 8, 8), np.arange(8) % 10
        for line in lines[:STEPS]:
            assert line == as_java(trainer.step(x, y, lr=0.05))
        trainer.save_checkpoint(tmp_path / "python")
        assert (folder / "jvm").read_bytes() == (tmp_path / "python").read_bytes()
        logit, last = trainer.evaluate(x).reshape(-1)[7], trainer.evaluate(x[:3]).reshape(-1)[29]
        later = as_java(trainer.step(x, y, lr=0.05))
    assert lines[STEPS:] == [
        str(STEPS),
        later,
        struct.pack(">f", logit).hex(),
        "8 30",
        struct.pack(">f", last).hex(),
        "6 element 0 of label is 10, outside [0, 9]",
    ]


def test_it_takes_steps_of_several_lengths(classes: Path, tmp_path: Path) -> None:
    path = save(decoder(is_causal=True, has_mask=False), tmp_path / "decoder.onnx")
    artifact = odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS)
    members = unpacked(artifact, tmp_path / "members")
    taken = (8, 4, 12, 4)
    first, *steps, none, unknown, nothing, negative = run_in_jvm(
        classes, "Lengths", members, *map(str, taken)
    )
    assert first == "[12, 8, 4]"
    with artifact.trainer(threads=1) as trainer:
        for value, (length, said, loss) in enumerate(
            zip(taken, steps[::2], steps[1::2], strict=True), 1
        ):
            places = BATCH * length
            assert said == f"[{BATCH}, {length}] {8 * places} {4 * places * WORDS}"
            ids = np.full((BATCH, length), value)
            labels = ids + 1
            ids[:, -1], labels[:, -1] = 0, IGNORED
            assert loss == as_java(trainer.step(ids, labels, lr=0.1))
            assert trainer.length == length
    assert none == "true"
    assert unknown == "1 the step is not compiled for a length of 5"
    assert nothing == "1 the step is not compiled for a length of 0"
    assert negative == "1 a length is 1 or more"
