"""The archives for an Android app: what is in them, and that Android loads it.

A JVM trains by the class of the archive in `tests/native/test_jvm.py`; what is native runs,
emulated, in `tests/device/test_native_runtime.py`.
"""

import hashlib
import io
import re
import shutil
import struct
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app import android_runtime, java
from odtc.app.export import export_app
from odtc.artifact import Artifact
from odtc.backends.objects.elf import check_library
from odtc.backends.targets import parse_target
from odtc.core.artifact.library_file import build_id
from odtc.core.errors import BuildError
from odtc.core.specs import Role
from odtc.runtime_rpc.native.android import build, compiler
from tests.needs import needs

PHONE = parse_target("android-cpu")
ANDROID = "{http://schemas.android.com/apk/res/android}"
# Of class files: what Java 8 reads.
CLASS_VERSION = 52


def compilers() -> list[list[str]]:
    """Commands of compilers for 64-bit ARM, those of each line of the table that there are."""
    return [found for each in compiler._COMPILERS if (found := each())]


pytestmark = needs(
    compilers(), shutil.which("javac"), reason="no compiler for 64-bit ARM, or no JDK"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("model") / "digits.onnx")
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Artifact:
    return odtc.compile(model, "android-cpu", batch=4, optimizer=odtc.AdamW())


@pytest.fixture(scope="module")
def app(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("android") / "app"
    export_app(artifact, "android", folder, "digits")
    return folder


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_is_in_the_archives(app: Path, artifact: Artifact) -> None:
    runtime, own = members(app / "odtc-runtime.aar"), members(app / "digits.aar")
    assert runtime.keys() == {
        *("AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt"),
        "jni/arm64-v8a/libodtc.so",
    }
    assets = "assets/odtc/digits"
    assert own.keys() == {
        *("AndroidManifest.xml", "R.txt", "jni/arm64-v8a/libdigits_kernels.so"),
        *(f"{assets}/program.bin", f"{assets}/parameters.safetensors"),
    }
    bundle = artifact._bundle
    assert own["jni/arm64-v8a/libdigits_kernels.so"] == bundle.library.read_bytes()
    assert own[f"{assets}/parameters.safetensors"] == bundle.parameters.read_bytes()
    packages = []
    for each in (runtime, own):
        manifest = ElementTree.fromstring(each["AndroidManifest.xml"])
        packages.append(manifest.attrib["package"])
        assert manifest.find("uses-sdk").attrib == {f"{ANDROID}minSdkVersion": "23"}
    assert len(runtime["jni/arm64-v8a/libodtc.so"]) <= 64 << 10
    assert packages == ["io.odtc", "io.odtc.model_digits"]
    # Shrinkers would rename what native code looks for by its name.
    assert runtime["proguard.txt"] == b"-keep class io.odtc.** { *; }\n"


def test_classes_and_sources(app: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(members(app / "odtc-runtime.aar")["classes.jar"])) as classes:
        kinds = ("$Feed", "$Progress", "$Rate", "", "Exception")
        assert classes.namelist() == [f"io/odtc/Trainer{kind}.class" for kind in kinds]
        for name in classes.namelist():
            assert struct.unpack(">IHH", classes.read(name)[:8]) == (0xCAFEBABE, 0, CLASS_VERSION)
    sources = members(app / "odtc-runtime-sources.jar")
    assert list(sources) == ["io/odtc/Trainer.java", "io/odtc/TrainerException.java"]


def test_several_models_share_nothing_but_the_runtime(
    app: Path, artifact: Artifact, tmp_path: Path
) -> None:
    export_app(artifact, "android", tmp_path / "other", "other")
    one, other = members(app / "digits.aar"), members(tmp_path / "other" / "other.aar")
    assert one.keys() & other.keys() == {"AndroidManifest.xml", "R.txt"}
    assert one["AndroidManifest.xml"] != other["AndroidManifest.xml"]
    # Written again, it has the same bytes.
    for name in ("odtc-runtime.aar", "odtc-runtime-sources.jar"):
        assert (app / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    kernels = [
        files[f"jni/arm64-v8a/lib{name}_kernels.so"]
        for name, files in (("digits", one), ("other", other))
    ]
    assert kernels[0] == kernels[1]


@pytest.mark.parametrize("compiler", compilers()[1:], ids=lambda words: Path(words[0]).name)
def test_other_compilers_make_what_android_loads(compiler: list[str], tmp_path: Path) -> None:
    """The first one made what is in the archives."""
    library = tmp_path / "libodtc.so"
    build.compile_runtime(compiler, java.jni_folder(), library)
    check_library(library, PHONE, in_app=True)
    assert library.stat().st_size <= 64 << 10


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_COMPILERS", ())
    with pytest.raises(BuildError, match="no C compiler for 64-bit ARM was found"):
        compiler.arm_compiler()


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('it has no headers')\n")
    broken.chmod(0o755)
    for command, text in (([str(broken)], "it has no headers"), (["/nowhere/cc"], "cannot start")):
        with pytest.raises(BuildError, match=text):
            build.compile_runtime(command, java.jni_folder(), tmp_path / "libodtc.so")
    assert not (tmp_path / "libodtc.so").exists()


def test_no_jdk(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odtc.app.java.shutil.which", lambda _: None)
    with pytest.raises(BuildError, match="no JDK was found"):
        export_app(artifact, "android", tmp_path / "app", "digits")
    assert not any(tmp_path.iterdir())


def test_a_wheel_is_built_without_a_jdk_and_not_with_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("odtc.app.java.shutil.which", lambda _: None)
    monkeypatch.setattr(android_runtime, "PREBUILT", made := tmp_path / "prebuilt")
    made.mkdir()
    (made / "odtc-runtime-of-an-older-build.aar").touch()
    assert android_runtime.main() == 0
    note = "note: the wheel has no runtime for Android: no JDK was found"
    assert capsys.readouterr().err.startswith(note)
    assert not any(android_runtime.PREBUILT.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(android_runtime, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setattr(android_runtime.java, "_RELEASE", "none")
    assert android_runtime.main() == BuildError.exit_code
    assert "error: the wheel's runtime for Android: the class of the JVM" in capsys.readouterr().err


def test_kernels_that_no_app_loads(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a library that TVM alone has symbols for."""
    libraries = {"libc.so": frozenset(), "libm.so": frozenset()}
    monkeypatch.setattr("odtc.backends.objects.elf.system_libraries", lambda *_, **__: libraries)
    with pytest.raises(BuildError, match="it leaves the symbol powf undefined") as caught:
        export_app(artifact, "android", tmp_path / "app", "digits")
    assert caught.value.hint == "compile the model again, with this version of odtc"
    assert not any(tmp_path.iterdir())


def test_the_program_of_an_archive_is_that_of_its_kernels(app: Path) -> None:
    """An app may fetch data later: the runtime takes no other program for the kernels."""
    own = members(app / "digits.aar")
    (library := app.parent / "kernels.so").write_bytes(own["jni/arm64-v8a/libdigits_kernels.so"])
    program = hashlib.sha256(own["assets/odtc/digits/program.bin"])
    assert build_id(library) == program.hexdigest()


def test_the_example_asks_for_what_the_archives_have(app: Path, artifact: Artifact) -> None:
    example = Path(__file__).parents[2] / "examples" / "android" / "app"
    sources = {path.name: path.read_text() for path in example.rglob("*.kt*") if path.is_file()}
    archives = re.findall(r'"libs/([^"]+)"', sources["build.gradle.kts"])
    assert {path.name for path in app.glob("*.aar")} == set(archives)
    own = members(app / "digits.aar")
    names = re.findall(r'fileOf\(\w+, "([^"]+)"\)', sources["Model.kt"])
    assert {f"assets/odtc/digits/{name}" for name in names} == {
        name for name in own if name.startswith("assets/")
    }
    (kernels,) = re.findall(r'KERNELS = "([^"]+)"', sources["Model.kt"])
    assert f"jni/arm64-v8a/{kernels}" in own
    tensors = set(re.findall(r'tensor\("([^"]+)"\)', sources["Training.kt"]))
    assert tensors == {
        item.spec.name
        for item in artifact.manifest.arguments
        if item.role in (Role.INPUT, Role.LABEL)
    }
