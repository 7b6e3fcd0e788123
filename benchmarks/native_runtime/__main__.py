"""`python -m benchmarks.native_runtime`: steps in C, by trainers of odtc and onnxruntime-training.

Each takes steps in a process of its own, in turns. odtc's have to have the same losses, of SGD with
momentum, without dropout. onnxruntime-training's on-device trainer takes plain SGD, so that its
first loss is compared. It is that of its wheel for Python, whose library is not built for size.
Start is from that of the process; memory is the most that is resident (VmHWM), of all that the
process holds.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console

import odtc
from benchmarks import app_size
from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model
from benchmarks.native_runtime.found import Found, Measured, table_of
from benchmarks.options import add_cases
from benchmarks.output import about, add_figures, write_figures
from odtc.app.java import jni_folder
from odtc.artifact import Artifact
from odtc.comparison.peers.onnxruntime_training import write_artifacts
from odtc.runtime_rpc.native.android.build import android_runtime
from odtc.runtime_rpc.native.build import FOLDER, compile_runtime, compiler_of_c

_HERE = Path(__file__).parent
MEMBERS = ("program.bin", "parameters.safetensors", "step.so")
_BATCH = {"digits": 32, "squeezenet": 4}
# Steps that follow each other, as in a training: behind a wait they find their caches empty.
_TURN = {"digits": 20, "squeezenet": 2}
# odtc's trainers, as `steps.py` calls them.
_OURS = ("native", "tvm")
# Seconds before a turn: TVM's threads look for work for a while after the last one.
_REST = 0.05


class Steps:
    """A process that takes steps when it is asked to."""

    def __init__(self, command: Sequence[str]) -> None:
        self._start = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.losses: list[str] = []
        self.seconds: list[float] = []
        self.take(1)
        self.start_seconds = time.perf_counter() - self._start
        self.ready_seconds = self.start_seconds - self.seconds.pop()

    def take(self, count: int) -> None:
        """Steps that follow each other."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("." * count)
        self._process.stdin.flush()
        for _ in range(count):
            nanoseconds, loss = self._process.stdout.readline().split()
            self.seconds.append(int(nanoseconds) / 1e9)
            self.losses.append(float.fromhex(loss).hex())

    def resident_bytes(self) -> int:
        """The most that was resident so far."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        raise AssertionError("the system does not say it")

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def artifact_of(name: str, folder: Path) -> Artifact:
    """A compiled step."""
    path = folder / f"{name}.onnx"
    if name == "digits":
        onnx.save(digits_model(), path)
    else:
        onnx.save(zoo_model(name), path)
    update = odtc.SGD(momentum=0.9)
    return odtc.compile(path, batch=_BATCH[name], optimizer=update, dropout=False)


def written_batch(artifact: Artifact, folder: Path) -> None:
    """A batch of noise, as either process reads it."""
    rng = np.random.default_rng(0)
    (x,), (label,) = artifact.manifest.inputs, artifact.manifest.labels
    arrays = {
        "x": rng.standard_normal(x.shape).astype(x.dtype),
        "y": rng.integers(0, label.classes.count if label.classes else 2, label.spec.shape),
    }
    arrays["y"] = arrays["y"].astype(label.spec.dtype)
    np.savez(folder / "batch.npz", **arrays)
    (folder / "batch.bin").write_bytes(arrays["x"].tobytes() + arrays["y"].tobytes())


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and prints a table; 1 where losses differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_runtime")
    parser.description = __doc__
    add_cases(parser, _BATCH)
    parser.add_argument("--turns", type=int, default=20, help=f"of {_TURN['digits']} steps, or 2")
    add_figures(parser, "native_runtime/steps")
    args = parser.parse_args(argv)
    said = about()
    print(said["machine"], file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        found = Found(sizes(Path(name)), archive_sizes(Path(name)), peer_sizes())
        for each in args.models:
            measure(each, Path(name), args, found)
    Console(width=100).print(table_of(found))
    write_figures(args.figures, said, **found.figures())
    return int(not found.is_same)


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of the runtime without symbols, by how it is compiled."""
    found = {}
    for level in ("-O2", "-Os"):
        library = folder / f"libodtc{level}.so"
        compile_runtime(compiler_of_c(), library, level, "-s")
        found[level] = library.stat().st_size
    found["-O2 and the functions for the JVM, for Android"] = len(android_runtime(jni_folder()))
    return found


def program_of_steps(folder: Path, members: Path, runtime: Path = FOLDER) -> list[str]:
    """Compiles the program in C with a runtime into a folder; its command, up to the threads."""
    program = folder / "steps"
    sources = [*map(str, sorted(runtime.glob("*.c"))), str(_HERE / "steps.c")]
    command = [*compiler_of_c(), "-std=c11", "-O2", f"-I{runtime}", *sources, "-o", str(program)]
    subprocess.run([*command, "-lpthread", "-ldl", "-lm"], check=True)
    return [str(program), *(str(members / each) for each in MEMBERS)]


def archive_sizes(folder: Path) -> dict[str, int]:
    """Bytes of the archives of an Android app, by their names."""
    found = app_size.measure(folder, ["android"])
    return {Path(each.part).name: each.nbytes for each in found if each.part.endswith(".aar")}


def peer_sizes() -> dict[str, int]:
    """Bytes of onnxruntime-training as its wheel brings it: its library, and all without CUDA's."""
    folder = Path(str(distribution("onnxruntime-training").locate_file("onnxruntime")))
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    (library,) = (path for path in files if path.match("onnxruntime_pybind11_state*.so"))
    others = [path.stat().st_size for path in files if "providers_cuda" not in path.name]
    return {"library": library.stat().st_size, "all but CUDA": sum(others)}


def measure(name: str, folder: Path, args: argparse.Namespace, found: Found) -> None:
    """Adds what a model takes."""
    artifact = artifact_of(name, folder)
    artifact.save(path := folder / f"{name}.odtc")
    members = folder / name
    members.mkdir()
    for each in MEMBERS:
        (members / each).write_bytes((artifact._bundle.root / each).read_bytes())
    written_batch(artifact, members)
    program = program_of_steps(folder, members)
    write_artifacts(onnx.load(folder / f"{name}.onnx"), _BATCH[name], members / "onnxruntime")
    tensors = artifact.memory.arena_bytes + sum(
        item.spec.nbytes for item in artifact.manifest.arguments
    )
    found.tensor_bytes[name] = tensors
    found.program_bytes[name] = (members / "program.bin").stat().st_size
    for threads in args.threads:
        native = Steps([*program, str(threads), str(members / "batch.bin")])
        batch = str(members / "batch.npz")
        worker = [sys.executable, "-m", "benchmarks.native_runtime.steps"]
        given = [str(path), str(threads), batch]
        ours = [native, *(Steps([*worker, each, *given]) for each in _OURS)]
        peer = Steps([*worker, "onnxruntime", str(members / "onnxruntime"), str(threads), batch])
        engines = [*ours, peer]
        for _ in range(args.turns):
            for each in engines:
                time.sleep(_REST)
                each.take(_TURN[name])
        row = Measured(
            name,
            _BATCH[name],
            threads,
            is_same=all(each.losses == native.losses for each in ours) and is_near(native, peer),
            step_ms=[[each * 1e3 for each in runner.seconds] for runner in engines],
            ready_ms=[runner.ready_seconds * 1e3 for runner in engines],
            start_ms=[runner.start_seconds * 1e3 for runner in engines],
            resident_mb=[runner.resident_bytes() / 1e6 for runner in engines],
        )
        found.rows.append(row)
        for each in engines:
            each.close()


def is_near(one: Steps, other: Steps) -> bool:
    """Whether the first losses are the same but for rounding."""
    losses = (float.fromhex(each.losses[0]) for each in (one, other))
    return math.isclose(*losses, rel_tol=1e-4)


if __name__ == "__main__":
    sys.exit(main())
