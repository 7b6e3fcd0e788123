"""The app for Android: its Kotlin and the page's compile, and its training is killed in a JVM.

It is compiled against declarations of our own, as no Android SDK is at hand; no Gradle built it.
"""

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.java import classes_jar, jni_folder
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.android.build import JAVA
from odtc.runtime_rpc.native.android.compiler import LEAST_SDK
from odtc.runtime_rpc.native.build import FOLDER, compile_runtime, compiler_of_c
from tests.app.killed import assert_one_step_is_lost, killed_runs, run_of, whole_run
from tests.app.kotlin import class_path, compile_kotlin, jars
from tests.app.overflowing import overflowing
from tests.native.parity import TARGET, unpacked
from tests.native.test_jvm import has_jdk
from tests.needs import needs

HERE = Path(__file__).parent
APP = HERE.parents[1] / "examples" / "android" / "app"
ANDROID = "{http://schemas.android.com/apk/res/android}"
KILLS = 3
# Around the example of docs/howto/app.md: a function, and what an app does with it.
IN_PAGE = """\
@file:Suppress("UNUSED_VARIABLE")
package page
import android.content.Context
import io.odtc.Trainer
import java.io.File
import java.io.IOException
{function}
fun train(context: Context, pixels: FloatArray, classes: IntArray) {{
{body}
}}
"""

pytestmark = needs(cc_command(), has_jdk(), jars(), reason="no JDK, no Kotlin or no C")


def page_example() -> str:
    """The Kotlin of the page, as a file."""
    page = (HERE.parents[1] / "docs/howto/app.md").read_text()
    found = re.search(r"^    fun fileOf.*?^    }\n\n", page, re.M | re.S)
    assert found
    body = re.match(r"(?: {4}.*\n)+", page[found.end() :])
    assert body
    assert ".step(" in body[0]
    return IN_PAGE.format(function=found[0], body=body[0])


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What starts the app's training in a JVM, with an artifact for this machine."""
    folder, include = tmp_path_factory.mktemp("kotlin"), jni_folder()
    (jar := folder / "odtc.jar").write_bytes(classes_jar())
    (page := folder / "page.kt").write_text(page_example())
    sources = [*APP.rglob("*.kt"), *HERE.glob("declarations/*.kt"), HERE / "programs/TrainOnJvm.kt"]
    sources.append(page)
    compile_kotlin(sources, [jar], folder / "classes")
    flags = (f"-I{include}", f"-I{include}/linux", f"-I{FOLDER}")
    compile_runtime(compiler_of_c(), folder / "libodtc.so", *flags, str(JAVA / "odtc_jni.c"))
    onnx.save(digits_model(), folder / "digits.onnx")
    artifact = odtc.compile(folder / "digits.onnx", TARGET, batch=32, optimizer=odtc.AdamW())
    members = unpacked(artifact, folder / "artifact")
    jvm = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Djava.library.path={folder}"]
    path = class_path([folder / "classes", jar])
    return [*jvm, "-cp", path, "io.odtc.example.TrainOnJvmKt", str(members)]


@pytest.mark.slow
def test_killed_at_any_moment(command: list[str], tmp_path: Path) -> None:
    """By SIGKILL, as Android does: one step at most is lost, and the end has the same bits."""
    checkpoints = [tmp_path / name / "checkpoint" for name in ("killed", "whole")]
    for path in checkpoints:
        path.parent.mkdir()
    (tmp_path / "killed" / "checkpoint.odtc-part").write_bytes(b"a part")
    runs = killed_runs(lambda steps: [*command, str(checkpoints[0]), str(steps)], KILLS)
    steps = max(runs[-1].losses)
    whole = whole_run([*command, str(checkpoints[1]), str(steps)])
    assert_one_step_is_lost(runs, whole)
    assert checkpoints[0].read_bytes() == checkpoints[1].read_bytes()
    assert [path.name for path in checkpoints[0].parent.iterdir()] == ["checkpoint"]
    losses = [float(loss) for loss in whole.losses.values()]
    assert len(losses) == steps
    assert losses[-1] < losses[0] / 10


def test_a_checkpoint_of_no_use_is_set_aside(command: list[str], tmp_path: Path) -> None:
    """A damaged one, and one of the step that the app had before its update."""
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    before = odtc.compile(path, TARGET, batch=32, optimizer=odtc.SGD(momentum=0.9))
    with before.trainer(threads=1) as trainer:
        trainer.save_checkpoint(tmp_path / "other")
    unfit = {
        "the header of the tensors cannot be read": b"not one",
        "the checkpoint was written with optimizer": (tmp_path / "other").read_bytes(),
    }
    first = whole_run([*command, str(tmp_path / "whole"), "1"])
    checkpoint = tmp_path / "checkpoint"
    for reason, content in unfit.items():
        checkpoint.write_bytes(content)
        words = [*command, str(checkpoint), "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        told = done.stdout.splitlines()[0]
        assert told.startswith("training begins anew: ")
        assert reason in told
        assert run_of(done.stdout) == first
        assert checkpoint.with_name("checkpoint.unfit").read_bytes() == content
        assert whole_run(words).begin == 1


@needs(shutil.which("prlimit"), reason="no prlimit")
def test_a_full_disk_is_for_later(command: list[str], tmp_path: Path) -> None:
    """Files of so many bytes alone can be written; the checkpoint of before stays."""
    checkpoint = tmp_path / "checkpoint"
    whole_run([*command, str(checkpoint), "1"])
    before = checkpoint.read_bytes()
    words = ["prlimit", f"--fsize={64 << 10}", *command, str(checkpoint), "9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    later = run_of(done.stdout).last
    assert later.startswith(f"later: {checkpoint} cannot be written: "), later
    assert checkpoint.read_bytes() == before


def test_after_a_step_that_is_not_finite(command: list[str], tmp_path: Path) -> None:
    """Of weights that overflow: it stops with a message, and begins anew with a smaller rate."""
    onnx.save(overflowing(digits_model()), path := tmp_path / "digits.onnx")
    made = odtc.compile(path, TARGET, batch=32, optimizer=odtc.AdamW())
    bad = unpacked(made, tmp_path / "bad")
    checkpoint = tmp_path / "checkpoint"
    words = [*command[:-1], str(bad), str(checkpoint), "3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"io\.odtc\.TrainerException: .* at step 1 ", done.stderr)
    assert not checkpoint.exists()
    assert checkpoint.with_name("checkpoint.not-finite").exists()
    smaller = whole_run([*command, str(checkpoint), "3"]).losses
    whole = whole_run([*command, str(tmp_path / "whole"), "3"]).losses
    assert [step for step in whole if smaller[step] == whole[step]] == [1]


def test_the_manifest_agrees_with_the_sources() -> None:
    """A service of a type that the manifest lacks, or without its permission, ends the app."""
    manifest = ElementTree.parse(APP / "src/main/AndroidManifest.xml").getroot()
    permissions = {each.attrib[f"{ANDROID}name"] for each in manifest.iter("uses-permission")}
    (service,) = manifest.iter("service")
    assert service.attrib[f"{ANDROID}foregroundServiceType"] == "specialUse"
    assert "android.permission.FOREGROUND_SERVICE_SPECIAL_USE" in permissions
    sources = {path.stem: path.read_text() for path in APP.rglob("*.kt")}
    types = re.findall(r"FOREGROUND_SERVICE_TYPE_\w+", sources["Notice"])
    assert types == ["FOREGROUND_SERVICE_TYPE_SPECIAL_USE"]
    (application,) = manifest.iter("application")
    icon = application.attrib[f"{ANDROID}icon"].removeprefix("@")
    image = ElementTree.parse(APP / f"src/main/res/{icon}.xml").getroot()
    assert image.tag == "vector"
    assert image.attrib[f"{ANDROID}width"] == "48dp"
    (activity,) = (each.attrib[f"{ANDROID}name"] for each in manifest.iter("activity"))
    assert f"class {activity.removeprefix('.')} " in sources["MainActivity"]
    build = (APP / "build.gradle.kts").read_text()
    assert f"minSdk = {LEAST_SDK}\n" in build
    (namespace,) = re.findall(r'namespace = "(.*)"', build)
    assert {re.findall(r"^package (.*)$", text, re.M)[0] for text in sources.values()} == {
        namespace
    }
