"""Times prepared kernels of products on this machine's GPU: the model's choice and others in turns.

The best of several is often lucky, so it is measured again, beside the model's, and that counts.
"""

import argparse
import ctypes
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import output
from odtc.backends.program.kernels import ARGUMENT, OUTPUT
from odtc.core.disk.tensor_file import write_tensors
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import GPUS
from odtc.runtime_rpc.native.interface import NativeError, bind_gpus
from odtc.runtime_rpc.native.on_gpu import OnGpu, time_evaluation

ALIGNMENT = 64
# Turns in which all kernels of a product are timed, and runs in each; the same when the best and
# the model's are measured again. A kernel whose values are further from the model's is wrong.
TURNS, AGAIN, RUNS, APART = 5, 15, 4, 1e-3


def main() -> None:
    """Prints what the best choices of each network would save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tuning.run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=Path("gpu_tuning.json"), metavar="")
    args = parser.parse_args()
    paths = sorted(args.folder.glob("*/task.json"))
    if not paths:
        parser.error(
            f"{args.folder} holds no products; `python -m benchmarks.gpu.tuning.prepare "
            f"{args.folder}` writes them"
        )
    library = bind_gpus(ctypes.CDLL(str((args.folder / GPUS.name).resolve())))
    found: list[dict[str, Any]] = []
    whole = {"run": output.about(), "tasks": found}
    for path in paths:
        found.append(measured(path.parent, library))
        print(line_of(found[-1]), flush=True)
        output.write_so_far(whole, args.output)
    for network, tasks in by_network(found).items():
        print(f"{network}: {saved(tasks):.1%} of {seconds_of(tasks) * 1e3:.2f} ms of products")


def measured(folder: Path, library: Any) -> dict[str, Any]:
    """Samples, in seconds, of all kernels of a product, and again of the best and the model's."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as made, ExitStack() as opened:
        write_tensors(weights := Path(made, "arguments"), _arguments(task), alignment=ALIGNMENT)

        def open_kernel(number: int) -> NativeTrainer | None:
            files = folder / f"{number}.bin", weights, folder / f"{number}.so"
            try:
                return opened.enter_context(NativeTrainer(files, 1, None, library))
            except NativeError:
                return None

        # What takes longest is the driver's compiler.
        numbers = range(len(task["choices"]))
        with ThreadPoolExecutor() as threads:
            tried = dict(zip(numbers, threads.map(open_kernel, numbers), strict=True))
        kernels = {number: each for number, each in tried.items() if each}
        usual = kernels[0].evaluate_part(OUTPUT)
        right = {n: each for n, each in kernels.items() if _is_right(each, usual)}
        samples = _in_turns(right, TURNS)
        best = min(samples, key=lambda n: statistics.median(samples[n]))
        again = _in_turns({n: right[n] for n in {0, best}}, AGAIN)
        on = OnGpu(kernels[0], lambda: None).name
    return {
        **task,
        "on": on,
        "samples": samples,
        "best": best,
        "again": {"usual": again[0], "best": again[best]},
        "wrong": len(kernels) - len(right),
        "refused": len(task["choices"]) - len(kernels),
    }


def _is_right(kernel: NativeTrainer, usual: np.ndarray) -> bool:
    found = kernel.evaluate_part(OUTPUT)
    return bool(np.abs(found - usual).max() <= APART * max(np.abs(usual).max(), 1e-30))


def _in_turns(kernels: Mapping[int, NativeTrainer], turns: int) -> dict[int, list[float]]:
    samples: dict[int, list[float]] = defaultdict(list)
    for _ in range(turns):
        for number, kernel in kernels.items():
            samples[number] += time_evaluation(kernel, OUTPUT, RUNS)
    return dict(samples)


def _arguments(task: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Normal noise; zeros of what is no float, such as masks."""
    rng = np.random.default_rng(0)
    noise = partial(rng.standard_normal, dtype=np.float32)
    return {
        f"{ARGUMENT}{number}": (
            noise(each["shape"]).astype(each["dtype"])
            if each["dtype"].startswith("float")
            else np.zeros(each["shape"], each["dtype"])
        )
        for number, each in enumerate(task["reads"])
    }


def by_network(tasks: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The products of each network and target."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for task in tasks:
        found[f"{task['network']}, {task['target'].partition('{')[0]}"].append(task)
    return dict(found)


def _seconds(task: Mapping[str, Any], which: str) -> float:
    return task["calls"] * statistics.median(task["again"][which])


def seconds_of(tasks: Sequence[Mapping[str, Any]], which: str = "usual") -> float:
    """Seconds of all calls in a step, with the model's choices or the best."""
    return sum(_seconds(task, which) for task in tasks)


def saved(tasks: Sequence[Mapping[str, Any]]) -> float:
    """The share of these seconds that the best choices save; worse ones are not taken."""
    best = sum(min(_seconds(task, "usual"), _seconds(task, "best")) for task in tasks)
    return 1 - best / seconds_of(tasks)


def line_of(task: Mapping[str, Any]) -> str:
    """One product."""
    usual, best = (statistics.median(task["again"][each]) for each in ("usual", "best"))
    choice = task["choices"][task["best"]]
    head = f"{task['network']} {task['target'].partition('{')[0]} {task['calls']} x"
    what = f"{usual * 1e6:.1f} us, best {usual / best:.2f} times as fast"
    left_out = f", {task['wrong']} wrong" if task["wrong"] else ""
    return f"{head} {what} {choice or 'as it is'}{left_out}: {task['workload'][:90]}"


if __name__ == "__main__":
    main()
