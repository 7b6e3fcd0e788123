"""An artifact that this machine cannot run is refused before its code runs."""

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.backends.cpus import lacking_features
from odtc.backends.targets import parse_target
from odtc.core.errors import DeviceError
from tests.needs import needs_x86

pytestmark = needs_x86("the CPUs are of x86")

# No CPU has both: one is AMD's of 2015, with FMA4; the other Intel's of 2016, with AVX-512ER.
CPUS = ("bdver4", "knl")


def test_a_machine_lacks_nothing_of_its_own() -> None:
    assert lacking_features(parse_target("host-cpu").resolved().cpu) == []
    assert lacking_features(parse_target("host-cpu{mcpu=x86-64}").cpu) == []


def test_code_for_another_cpu_is_refused(tmp_path) -> None:
    mcpu = next(
        cpu for cpu in CPUS if lacking_features(parse_target(f"host-cpu{{mcpu={cpu}}}").cpu)
    )
    onnx.save(digits_model(), tmp_path / "digits.onnx")
    target = f"host-cpu{{mcpu={mcpu},threads=2}}"
    artifact = odtc.compile(tmp_path / "digits.onnx", target, batch=2)
    with pytest.raises(DeviceError) as failure:
        artifact.trainer()
    assert f"the artifact is for {target}; this machine lacks " in str(failure.value)
