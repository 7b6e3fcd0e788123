"""Memory of a trainer is that of its tensors: files that it copies are not resident beside them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import odtc
from benchmarks.native_runtime.__main__ import Steps, program_of_steps, written_batch
from odtc.core.process.cxx import cc_command
from tests.native.parity import TARGET, native_trainer, unpacked
from tests.needs import needs

LAYERS, SIDE = 4, 768
TENSOR = 4 * SIDE * SIDE  # bytes of a layer, 2.4 MB
# Two pieces that are copied, or a tensor that is hashed; what the system maps around a page.
ROOM = TENSOR + (1 << 20)


pytestmark = needs(cc_command(), reason="no C compiler")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = "".join(f" h{n + 1} = MatMul (h{n}, w{n})" for n in range(LAYERS))
    text = f"(float[N, {SIDE}] h0) => (float[N, {SIDE}] h{LAYERS}) {{{nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}')
    rng = np.random.default_rng(0)
    for n in range(LAYERS):
        value = rng.standard_normal((SIDE, SIDE)).astype(np.float32) / SIDE
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, f"w{n}"))
    onnx.save(model, path := tmp_path_factory.mktemp("resident") / "m.onnx")
    return path


def resident(field: str) -> int:
    """Bytes of this process that are resident, or the most that were."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    raise AssertionError(field)


@contextmanager
def at_most(nbytes: int) -> Iterator[None]:
    """A block in which no more becomes resident, at any moment."""
    Path("/proc/self/clear_refs").write_text("5")  # the most is what there is now
    before = resident("VmRSS")
    yield
    assert resident("VmHWM") - before <= nbytes


def test_a_process_that_trains(path: Path, tmp_path: Path) -> None:
    """Beside its tensors are the C library, the runtime and the kernels: less than 4 MB."""
    artifact = odtc.compile(path, TARGET, batch=32, loss="mse", optimizer="sgd{momentum=0.9}")
    members = unpacked(artifact, tmp_path / "native")
    written_batch(artifact, members)
    tensors = artifact.memory.arena_bytes + sum(i.spec.nbytes for i in artifact.manifest.arguments)
    native = Steps([*program_of_steps(tmp_path, members), "2", str(members / "batch.bin")])
    native.take(2)
    found = native.resident_bytes()
    native.close()
    assert 2 * LAYERS * TENSOR < tensors <= found <= tensors + 4_000_000


def test_weights_that_are_copied(path: Path, tmp_path: Path) -> None:
    artifact = odtc.compile(path, TARGET, batch=1, loss="mse")
    with native_trainer(artifact, tmp_path / "first") as native:
        native.save_checkpoint(tmp_path / "checkpoint")
    folder = tmp_path / "second"
    with at_most(LAYERS * TENSOR + ROOM), native_trainer(artifact, folder) as native:
        assert native.tensors["parameter", "w3"].any()
        with at_most(ROOM):
            native.load_checkpoint(tmp_path / "checkpoint")


def test_weights_beside_those_that_stay_in_their_file(path: Path, tmp_path: Path) -> None:
    artifact = odtc.compile(path, TARGET, batch=1, loss="mse", train=["w0", "w1", "w2"])
    with native_trainer(artifact, tmp_path / "native") as native:
        assert native.tensors["frozen", "w3"].any()
        weights = str(tmp_path / "native" / "parameters.safetensors")
        lines = Path("/proc/self/smaps").read_text().splitlines()
        at = next(n for n, line in enumerate(lines) if line.endswith(weights))
        (found,) = (line for line in lines[at : at + 5] if line.startswith("Rss:"))
        # Some systems map two MiB at a time, around each page that is read.
        assert 0 < int(found.split()[1]) << 10 <= TENSOR + (4 << 20) < 3 * TENSOR
