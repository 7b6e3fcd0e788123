"""The odtc-device that phones get: a small program that Android's own loader starts."""

import os
import stat
import subprocess
from pathlib import Path
from shutil import copyfile
from unittest.mock import ANY, Mock

import pytest
from elftools.elf.elffile import ELFFile

from odtc.cli.main import main
from odtc.core.errors import BuildError, ExitCode
from odtc.runtime_rpc.native.android import compiler, device, wheel
from odtc.runtime_rpc.standin.android import emulated, write_android
from tests.needs import needs_emulated_arm

pytestmark = needs_emulated_arm()

MOST_BYTES = 256_000
# Of variables: those that are written, and those that are zero until then.
MOST_MEMORY = 1 << 20
ARM_COMPILER = "aarch64-linux-gnu-gcc"
OURS = ["-DOURS", "-ffreestanding", f"-I{compiler.DEVICE_HEADER.parent}"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("build") / "odtc-device"
    words = ["device", "build", "--machine", "android", "-o", str(path)]
    assert main(words) == ExitCode.OK
    return path


def test_it_is_small_and_needs_android_alone(program: Path) -> None:
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    assert program.stat().st_size < MOST_BYTES
    with program.open("rb") as file:
        elf = ELFFile(file)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        written = [each for each in elf.iter_segments("PT_LOAD") if each["p_flags"] & 2]
        assert needed == {"libc.so", "libdl.so"}
        assert sum(each["p_memsz"] for each in written) < MOST_MEMORY
        assert not elf.get_section_by_name(".init_array")


def test_it_starts_where_only_androids_names_are(program: Path, tmp_path: Path) -> None:
    write_android(tmp_path)
    emulator, *words = emulated("qemu-aarch64-static", "cortex-a76")
    command = [emulator, "-L", str(tmp_path), *words, str(program)]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "--tracker ADDRESS" in done.stdout
    done = subprocess.run([*command, "--no"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "odtc-device: --no: is not an option; --help lists them\n"


def layouts(folder: Path, *flags: str) -> bytes:
    """What a compile of `layouts.c` has in its table."""
    output = folder / "layouts.o"
    source = Path(__file__).with_name("layouts.c")
    command = [ARM_COMPILER, "-std=c11", *flags, "-c", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    with output.open("rb") as file:
        return ELFFile(file).get_section_by_name(".rodata").data()


def test_declarations_are_those_of_linux(tmp_path: Path) -> None:
    ours, glibcs = layouts(tmp_path, *OURS), layouts(tmp_path)
    assert len(ours) > 8 * 150
    found, wanted = (memoryview(each).cast("q").tolist() for each in (ours, glibcs))
    assert found == wanted


def test_that_of_a_wheel_needs_no_compiler(
    program: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    """`tests/test_packaging.py` has a wheel compile it, to the same bytes; here it is compiled."""
    version = device.metadata.version("odtc")
    compiled = Mock(side_effect=lambda _compiler, output, _version: copyfile(program, output))
    monkeypatch.setattr(wheel, "compile_device", compiled)
    for module in (device, wheel):
        monkeypatch.setattr(module, "PREBUILT", tmp_path / "prebuilt")
    assert wheel.main(version) == 0
    compiled.assert_called_once_with(compiler.arm_compiler(), ANY, version)
    (prebuilt,) = (tmp_path / "prebuilt").iterdir()
    assert prebuilt == device.prebuilt_path(version)
    monkeypatch.setattr(compiler, "_COMPILERS", ())
    assert device.android_device() == prebuilt.read_bytes()
    # Of other sources it is none; and one that an older build left is in no wheel.
    prebuilt.rename(prebuilt.with_name("odtc-device-of-other-sources"))
    with pytest.raises(BuildError, match="no C compiler for 64-bit ARM was found"):
        device.android_device()
    assert wheel.main(version) == 0
    assert capsys.readouterr().err.startswith("note: the wheel has no server for phones: no C comp")
    assert not any((tmp_path / "prebuilt").iterdir())


def test_a_function_that_android_lacks_is_named(tmp_path: Path, monkeypatch) -> None:
    """As of a program that calls what no Android of long ago has."""
    (source := tmp_path / "more.c").write_text(
        "int getrandom(void *, unsigned long, unsigned);\n"
        "int main(void) { return getrandom(0, 0, 0); }\n"
    )
    monkeypatch.setattr(device, "_files", lambda: [device._BEGIN, source])
    with pytest.raises(BuildError, match="getrandom"):
        device.compile_device(compiler.arm_compiler(), tmp_path / "program", "1")
    assert not os.path.exists(tmp_path / "program")
