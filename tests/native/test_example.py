"""The example in C trains, stops, and goes on to the same bits."""

import signal
import subprocess
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER
from tests.native.parity import tvm_trainer, unpacked
from tests.needs import needs

EXAMPLE = Path(__file__).parents[2] / "examples" / "linux" / "train.c"

pytestmark = needs(cc_command(), reason="no compiler of C")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("train") / "train"
    sources = [str(EXAMPLE), *map(str, sorted(FOLDER.glob("*.c")))]
    command = [*cc_command(), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}"]
    subprocess.run(
        [*command, *sources, "-o", str(output), *"-lpthread -ldl -lm".split()], check=True
    )
    return output


def test_it_trains_and_goes_on(train: Path, tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    update = odtc.SGD(momentum=0.9)
    artifact = odtc.compile(path, "host-cpu{threads=2}", batch=32, optimizer=update)
    at_once, in_parts = (unpacked(artifact, tmp_path / name) for name in ("once", "parts"))

    def run(folder: Path, steps: int) -> list[str]:
        command = [str(train), str(folder), str(steps)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(
            "\n"
        )

    lines = run(at_once, 100)
    losses = [float(line.split()[-1]) for line in lines if line.startswith("step")]
    assert losses[-1] < losses[0] / 4
    run(in_parts, 60)
    # Stopped by a signal: all that it has taken is in the checkpoint.
    process = subprocess.Popen(
        [str(train), str(in_parts), "1000000"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "goes on after step 60\n"
    process.send_signal(signal.SIGINT)
    (stopped,) = (line for line in process.stdout.read().split("\n") if "stopped" in line)
    assert process.wait() == 0
    taken = int(stopped.split()[3].rstrip(","))
    assert taken >= 60
    if taken < 100:
        run(in_parts, 100 - taken)
    else:
        run(at_once, taken - 100)
    checkpoints = [(folder / "checkpoint").read_bytes() for folder in (at_once, in_parts)]
    assert checkpoints[0] == checkpoints[1]
    # And the trainer of Python takes it up.
    with tvm_trainer(artifact, threads=1) as trainer:
        trainer.load_checkpoint(at_once / "checkpoint")
        assert trainer.steps == max(taken, 100)
