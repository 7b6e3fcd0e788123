"""What nothing could run beside a GPU is refused when it is compiled."""

from pathlib import Path

import pytest

from odtc.backends.objects.host_code import check_has_program, check_launches
from odtc.backends.objects.stub_library import stub_library
from odtc.backends.targets import parse_target
from odtc.core.errors import UnsupportedError
from odtc.runtime_rpc import native

CALLED = "__TVMBackendAllocWorkspace"


@pytest.mark.parametrize("target", ["host-opencl", "host-vulkan", "host-cpu"])
def test_kernels_that_ask_the_host_for_memory(target: str, tmp_path: Path) -> None:
    of, path = parse_target(target), tmp_path / "step.so"
    path.write_bytes(stub_library("step.so", "x86_64", ("main",)))
    check_launches(path, of)
    path.write_bytes(stub_library("step.so", "x86_64", ("main", CALLED)))
    if target == "host-cpu":
        check_launches(path, of)
        return
    with pytest.raises(UnsupportedError, match="call TVMBackendAllocWorkspace on the host"):
        check_launches(path, of)


def test_the_runtime_looks_for_the_same() -> None:
    launches = Path(native.__path__[0]) / "gpu" / "launches.c"
    assert f'"{CALLED}"' in launches.read_text("utf-8")


def test_a_step_without_a_program() -> None:
    check_has_program("", parse_target("host-opencl"))
    check_has_program("main calls shape_of", parse_target("host-cpu"))
    with pytest.raises(UnsupportedError, match="no program for it: main calls shape_of"):
        check_has_program("main calls shape_of", parse_target("host-opencl"))
