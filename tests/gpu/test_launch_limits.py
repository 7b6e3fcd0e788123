"""Launches need of a GPU what the device module declares, within a phone's limits."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
import tvm
from tvm import tirx

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.backends.gpu.known import GPUS
from odtc.backends.targets import parse_target
from odtc.passes.kernel.check_launches import CheckLaunches, Needs, launches_of, needs_of
from tests.fast import fast_if
from tests.gpu.spirv.module_reader import opencl_module

# The item's size by what OpenCL calls it.
SIZES = {"char": 1, "uchar": 1, "half": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "double": 8}


@pytest.fixture(scope="module", params=fast_if("digits".__eq__, ["digits", "squeezenet"]))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions, normalisations and a product; or a whole SqueezeNet."""
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    if request.param == "digits":
        onnx.save(bn_model(), path)
    else:
        net = SMALL[request.param]
        export(make(net), next(batches(net))[0], path)
    return path


def launched(
    model: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, list[Needs]], bytes]:
    """Returns the needs of launches as they are checked, by kernel, and the resulting library."""
    found: dict[str, list[Needs]] = {}
    checked = CheckLaunches.run

    def run(self: CheckLaunches, module: tvm.IRModule) -> tvm.IRModule:
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                found[variable.name_hint] = [needs_of(each) for each in launches_of(kernel.body)]
        return checked(self, module)

    monkeypatch.setattr(CheckLaunches, "run", run)
    artifact = odtc.compile(model, target, batch=4)
    return found, artifact._bundle.library.read_bytes()


def local_bytes(source: str) -> int:
    """Bytes of the arrays that a work-group shares."""
    arrays = re.findall(r"__local (\w+) \w+\[(\d+)\]", source)
    return sum(SIZES[kind] * int(length) for kind, length in arrays)


def arguments(kernels: Mapping[str, list[tuple]]) -> Counter[tuple[int, int]]:
    """Buffers, and bytes of all arguments, of how many launches."""
    return Counter(
        (sum(code == 3 for code, _, _ in types), sum(bits // 8 for _, bits, _ in types))
        for types in kernels.values()
    )


@pytest.mark.parametrize("gpu", ["adreno-640", "mali-g76"])
def test_they_are_counted_as_the_device_module_has_them(
    gpu: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, library = launched(model, f"android-opencl{{gpu={gpu}}}", monkeypatch)
    kernels, parts = opencl_module(library)
    needs = [each for launches in found.values() for each in launches]
    assert Counter((each.buffers, each.argument_bytes) for each in needs) == arguments(kernels)
    for kernel, launches in found.items():
        shared = [
            local_bytes(part)
            for name, part in parts.items()
            if re.fullmatch(rf"{kernel}_kernel(_\d+)?", name)
        ]
        # TVM may lay what two reductions share over each other.
        counted = sorted(each.shared_bytes for each in launches)
        assert all(a >= b for a, b in zip(counted, sorted(shared), strict=True)), kernel
    tiles = [each.shared_bytes for each in needs if each.shared_bytes > 4 * each.items]
    assert max(tiles) == max(map(local_bytes, parts.values()))
    limits = GPUS[gpu]
    assert max(each.items for each in needs) == limits.group
    assert 0 < max(each.shared_bytes for each in needs) <= limits.local_bytes
    assert max(each.argument_bytes for each in needs) <= limits.argument_bytes


@pytest.mark.parametrize("gpu", ["adreno-640", "mali-g76"])
def test_through_vulkan_they_are_within_the_limits(
    gpu: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = launched(model, f"android-vulkan{{gpu={gpu}}}", monkeypatch)
    limits = GPUS[gpu]
    most = limits.buffers
    assert most is not None
    assert max(each.buffers for launches in found.values() for each in launches) <= most


def test_a_target_of_a_gpu_checks_its_limits() -> None:
    from odtc.backends.families import family_of

    for target, options in {
        "android-opencl": {"items": 256, "shared_bytes": 16384, "argument_bytes": 1024},
        "android-vulkan{gpu=mali-g77}": {"items": 512, "shared_bytes": 32768, "buffers": 16},
        "host-vulkan": {"items": 256, "shared_bytes": 32768, "buffers": None},
    }.items():
        resolved = parse_target(target).resolved()
        (check,) = family_of(resolved).checks
        expected = {"argument_bytes": None, "buffers": None} | options
        assert check == CheckLaunches(resolved.spec, **expected)
