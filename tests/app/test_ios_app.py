"""The packages for an iOS app: as far as they can be compiled and linked without Apple's tools.

No Swift is compiled. What C there is is compiled, for this machine and for iOS against declarations
of our own, and linked with the kernels by lld. These run in `tests/device/test_ios_app.py`.
"""

import hashlib
import plistlib
import re
import subprocess
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.export import export_app
from odtc.app.ios import _type
from odtc.artifact import Artifact
from odtc.backends.objects.mach_o import symbols_of
from odtc.core.artifact.static_library import members_of
from odtc.core.errors import DeviceError, UsageError
from odtc.core.process.cxx import cc_command
from tests.app.apple import CLANG, LINKER, NM, compile_objects, link_image
from tests.native.reader import read
from tests.needs import needs


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("model") / "digits.onnx")
    made = odtc.compile(path, "ios-cpu", batch=4, optimizer=odtc.AdamW())
    made.save(path.with_name("digits.odtc"))
    return odtc.load(path.with_name("digits.odtc"))


@pytest.fixture(scope="module")
def app(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ios") / "app"
    export_app(artifact, "ios", folder, "digits")
    return folder


def library_of(app: Path) -> Path:
    return app / "DigitsModel/DigitsModelKernels.xcframework/ios-arm64/libdigits_kernels.a"


def test_what_is_in_the_packages(app: Path, artifact: Artifact) -> None:
    model, bundle = app / "DigitsModel", artifact._bundle
    resources = model / "Sources/DigitsModel"
    assert (resources / "program.bin").read_bytes() == bundle.program.read_bytes()
    assert (resources / "parameters.safetensors").read_bytes() == bundle.parameters.read_bytes()
    framework = model / "DigitsModelKernels.xcframework"
    said = plistlib.loads((framework / "Info.plist").read_bytes())
    assert said["CFBundlePackageType"] == "XFWK"
    (only,) = said["AvailableLibraries"]
    assert (framework / only["LibraryIdentifier"] / only["LibraryPath"]).is_file()
    for package in (model, app / "OdtcRuntime"):
        text = (package / "Package.swift").read_text()
        named = re.findall(r'\.target\(\s*name: "(\w+)"', text)
        assert {path.name for path in (package / "Sources").iterdir()} == set(named)


# Apple's "required reason" functions that programs in C may call, by the category that names them.
REASONS = {
    "NSPrivacyAccessedAPICategoryFileTimestamp": (
        "stat fstat lstat fstatat getattrlist fgetattrlist getattrlistat getattrlistbulk"
    ),
    "NSPrivacyAccessedAPICategoryDiskSpace": "statfs fstatfs statvfs fstatvfs",
    "NSPrivacyAccessedAPICategorySystemBootTime": "mach_absolute_time",
}


def test_what_the_store_asks_reasons_for_is_declared(app: Path) -> None:
    package = app / "OdtcRuntime"
    sources = "".join(path.read_text() for path in (package / "Sources").rglob("*.[ch]"))
    called = {
        category
        for category, names in REASONS.items()
        if re.search(rf"\b(?:{names.replace(' ', '|')})\(", sources)
    }
    said = plistlib.loads((package / "Sources/Odtc/PrivacyInfo.xcprivacy").read_bytes())
    declared = {
        each["NSPrivacyAccessedAPIType"]: each["NSPrivacyAccessedAPITypeReasons"]
        for each in said["NSPrivacyAccessedAPITypes"]
    }
    assert declared.keys() == called
    # "Metadata of files inside the app container": weights, program and checkpoints lie there.
    assert declared["NSPrivacyAccessedAPICategoryFileTimestamp"] == ["C617.1"]
    assert said["NSPrivacyTracking"] is False
    assert said["NSPrivacyCollectedDataTypes"] == []
    assert 'resources: [.copy("PrivacyInfo.xcprivacy")]' in (package / "Package.swift").read_text()


def test_packages_are_the_models_own() -> None:
    names = ("digits", "my_digits", "net1", "net_1", "net", "net_", "net__", "a_b", "a__b", "ab")
    types = [_type(name) for name in names]
    assert types[:2] == ["DigitsModel", "My_DigitsModel"]
    # On a Mac's disk, too.
    assert len({each.lower() for each in types}) == len(names)


def test_targets_of_models_are_their_own(artifact: Artifact, tmp_path: Path) -> None:
    """Each is a module, and a file of a Mac's disk: C's module of net is not Swift's of cnet."""
    targets = []
    for name in ("net", "cnet", "n_et"):
        export_app(artifact, "ios", tmp_path / name, name)
        (package,) = (tmp_path / name).glob("*Model/Package.swift")
        found = re.findall(r'arget\(\s*name: "(\w+)"', package.read_text())
        assert len(found) == 3
        targets += [each.lower() for each in found]
    assert len(set(targets)) == len(targets)


def test_symbols_are_the_models_own(app: Path, artifact: Artifact, tmp_path: Path) -> None:
    export_app(artifact, "ios", tmp_path / "other", "other")
    other = tmp_path / "other/OtherModel/OtherModelKernels.xcframework/ios-arm64"
    found = []
    for path in (library_of(app), other / "libother_kernels.a"):
        members = members_of(path.read_bytes()).values()
        symbols = [each.name for one in members for each in symbols_of(one) if each.is_defined]
        assert len(set(symbols)) == len(symbols)
        found.append(set(symbols))
    assert not found[0] & found[1]
    assert all(name.startswith("odtc_model_digits_") for name in found[0])
    assert (app / "OdtcRuntime/Sources/COdtc/pool.c").read_bytes() == (
        tmp_path / "other/OdtcRuntime/Sources/COdtc/pool.c"
    ).read_bytes()


def test_the_table_has_every_kernel_of_the_program(app: Path) -> None:
    data = (app / "DigitsModel/Sources/DigitsModel/program.bin").read_bytes()
    table = (app / "DigitsModel/Sources/DigitsModelTable/kernels.c").read_text()
    called = {kernel for each in read(data).functions for kernel, _ in each["calls"]}
    assert called <= set(re.findall(r'\{"(\w+)"', table))
    digest = bytes(int(byte, 16) for byte in re.findall(r"0x(\w\w)", table))
    assert digest == hashlib.sha256(data).digest()


@needs(NM, reason="no llvm-nm")
def test_others_read_the_library(app: Path) -> None:
    command = [str(NM), "--print-armap", str(library_of(app))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    members = members_of(library_of(app).read_bytes())
    in_table = re.findall(r"^_(\S+) in (\S+)$", said, re.M)
    assert sorted(in_table) == sorted(
        (each.name, name)
        for name, content in members.items()
        for each in symbols_of(content)
        if each.is_defined
    )


@needs(cc_command(), reason="no C compiler")
def test_headers_and_sources_lie_where_they_are_looked_for(app: Path, tmp_path: Path) -> None:
    runtime = app / "OdtcRuntime/Sources/COdtc"
    model = app / "DigitsModel/Sources/DigitsModelTable"
    folders = (f"-I{runtime / 'include'}", f"-I{model / 'include'}")
    command = [*cc_command(), "-std=c11", "-Wall", "-Wextra", "-Werror", *folders]
    sources = [*map(str, sorted(runtime.glob("*.c"))), str(model / "kernels.c")]
    subprocess.run([*command, "-fsyntax-only", *sources], check=True)


@needs(CLANG, reason="no clang")
def test_module_maps(app: Path, tmp_path: Path) -> None:
    """Swift sees C through these."""
    sources = (app / "OdtcRuntime/Sources/COdtc", app / "DigitsModel/Sources/DigitsModelTable")
    flags = []
    for folder in sources:
        flags += [f"-I{folder / 'include'}", f"-fmodule-map-file={folder}/include/module.modulemap"]
    (tmp_path / "use.c").write_text(
        "#pragma clang module import DigitsModelTable\n"
        "#pragma clang module import COdtc\n"
        "odtc_options options(void);\n"
        "odtc_options options(void) {\n"
        "  return (odtc_options){.kernels = odtc_model_digits()};\n"
        "}\n"
    )
    cache = f"-fmodules-cache-path={tmp_path}/cache"
    command = [str(CLANG), "-Wall", "-Werror", "-fmodules", cache, *flags, "-fsyntax-only"]
    subprocess.run([*command, str(tmp_path / "use.c")], check=True)


@needs(CLANG, LINKER, NM, reason="no clang, ld64.lld or llvm-nm")
def test_an_image_for_ios_is_linked(app: Path, tmp_path: Path) -> None:
    """The runtime, the table and the kernels leave nothing undefined but what a system has."""
    runtime = app / "OdtcRuntime/Sources/COdtc"
    model = app / "DigitsModel/Sources/DigitsModelTable"
    sources = [*sorted(runtime.glob("*.c")), model / "kernels.c"]
    folders = (runtime / "include", model / "include")
    link_image(compile_objects(sources, folders, tmp_path), library_of(app), tmp_path / "app")
    said = subprocess.run(
        [str(NM), "-m", str(tmp_path / "app")], capture_output=True, text=True, check=True
    ).stdout
    # Other images of the app see the runtime's own functions, and no kernels.
    assert " external _odtc_open\n" in said
    assert not re.search(r"\) external _odtc_model_digits_k", said)


def test_such_a_step_is_for_an_app_alone(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="whose steps run in an app alone"):
        artifact.trainer()
    with pytest.raises(UsageError, match="is for ios-cpu, which does not run on android"):
        export_app(artifact, "android", tmp_path / "app", "digits")
