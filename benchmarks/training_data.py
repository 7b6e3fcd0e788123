"""What data costs a run: `python -m benchmarks.training_data`.

Memory: a process of its own trains from 4 GB of mapped samples, of a file without contents, in an
order that is drawn, and hashes them; what its resident memory grew by beside the step, at most, is
reported. Time: blocks of steps with and without augmentation take turns in one process, on one
thread, and which goes first alternates, so that other load affects both; a pair's ratio is that of
their seconds, with all waiting for batches, and the median is reported.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch

import odtc
from benchmarks.options import positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    numbers_table,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import case_of
from odtc.comparison.measures.measure import spread

_WIDTH, _BATCH = 1024, 64
_AUGMENT = ("flip", "crop{pixels=4}", "jitter")
# Of images that are drawn once: what a step takes does not depend on them.
_IMAGES = 64
# The most that it has been begins anew: a process is born with that of the one that started it.
_LARGE = """
import sys
from pathlib import Path
import odtc
from odtc.runtime_rpc.data.readers import read_data
artifact, data, steps = sys.argv[1:]
trainer = odtc.load(artifact).trainer(threads=1)
def resident(key):
    (line,) = [each for each in open("/proc/self/status") if each.startswith(key)]
    return int(line.split()[1]) << 10
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
held = read_data(Path(data), trainer.manifest)
trainer.fit(data, lr=0.0, steps=int(steps))
held.digest()
print(resident("VmHWM") - before)
"""


@dataclass(frozen=True)
class DataCost:
    """A measured cost.

    Attributes:
        what: in a table.
        unit: of the values.
        goal: what none of them should be above.
        values: as measured.
    """

    what: str
    unit: str
    goal: float
    values: Sequence[float]

    def figures(self) -> dict[str, Any]:
        """For docs/howto/train.md."""
        return {
            "what": self.what,
            "unit": self.unit,
            "goal": self.goal,
            "values": list(self.values),
        }


def memory(gigabytes: int, steps: int, folder: Path) -> DataCost:
    """What samples that stay in their file add to a process."""
    samples = gigabytes * 10**9 // (4 * _WIDTH)
    model, artifact, data = folder / "m.onnx", folder / "m.odtc", folder / "data"
    odtc.from_torch(torch.nn.Linear(_WIDTH, 2), (torch.zeros(_BATCH, _WIDTH),), model)
    odtc.compile(model, batch=_BATCH).save(artifact)
    data.mkdir()
    np.lib.format.open_memmap(data / "x.npy", "w+", np.float32, (samples, _WIDTH)).flush()
    np.save(data / "y.npy", np.arange(samples, dtype=np.int32) % 2)
    argv = [sys.executable, "-c", _LARGE, str(artifact), str(data), str(steps)]
    run = subprocess.run(argv, check=True, capture_output=True, text=True)
    grown = int(run.stdout.splitlines()[-1])
    return DataCost(f"memory beside the step, {gigabytes} GB of samples", "MB", 300, [grown / 1e6])


def augmentation(network: str, batch: int, steps: int, pairs: int, folder: Path) -> DataCost:
    """How much longer steps take whose images are made for each of them."""
    case, path = case_of(network, batch), folder / "net.onnx"
    onnx.save(case.model, path)
    artifact = odtc.compile(path, batch=batch, loss=case.loss)
    (fed,) = artifact.manifest.inputs
    rng = np.random.default_rng(0)
    x = rng.random((_IMAGES, *fed.shape[1:]), np.float32)
    label = artifact.manifest.labels[0]
    y = rng.integers(0, label.classes.count if label.classes else 2, _IMAGES).astype(np.int32)
    trainer = artifact.trainer(threads=1)

    def block(augment: Sequence[str]) -> float:
        began = time.perf_counter()
        # A rate of zero: what is measured is time.
        trainer.fit((x, y), lr=0.0, steps=steps, augment=augment)
        return time.perf_counter() - began

    block(_AUGMENT)
    ratios = []
    for number in range(pairs):
        order = ((), _AUGMENT) if number % 2 else (_AUGMENT, ())
        seconds = {given: block(given) for given in order}
        ratios.append(seconds[_AUGMENT] / seconds[()])
    what = f"step time with {', '.join(_AUGMENT)} over that without, {network}, batch {batch}"
    return DataCost(what, "", 1.05, ratios)


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training_data", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--gigabytes", type=positive, default=4, help="of samples, in a file without contents")
    add("--network", default="squeezenet", help="whose steps are timed")
    add("--batch", type=positive, default=8, help="of these")
    add("--steps", type=positive, default=20, help="in a block")
    add("--pairs", type=positive, default=11, help="of blocks")
    add_files(parser, "training_data")
    add_figures(parser, "howto/training_data")
    options = parser.parse_args()
    console, said = terminal(), about() | {"threads": 1}
    introduce(console, said, f"{options.pairs} pairs of blocks of {options.steps} steps")
    with TemporaryDirectory() as folder:
        rows = [
            memory(options.gigabytes, 300, Path(folder)),
            augmentation(
                options.network, options.batch, options.steps, options.pairs, Path(folder)
            ),
        ]
    table = numbers_table("", "measured", "goal")
    for row in rows:
        table.add_row(row.what, f"{spread(row.values).text()} {row.unit}", f"{row.goal:g}")
    console.print(table)
    write_json(said, "rows", rows, options.json)
    write_figures(options.figures, said, [row.figures() for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
