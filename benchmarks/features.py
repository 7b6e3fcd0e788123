"""What it saves to keep what frozen layers make: `python -m benchmarks.features`.

Runs that train the last layer of a network alone, on one thread, take turns in one process with and
without features kept, and which goes first alternates, so that other load affects both. A pair's
ratio is that of their seconds, those for computing the features with them; a step's time is the
median of the steps of a run. Losses are compared: they are the same, to the bit.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

import odtc
from benchmarks.options import add_sizes, positive
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

_NETWORKS = ("mobilenet_v2", "squeezenet", "resnet18")
_WHOLE, _KEPT = 0, "1GiB"


@dataclass(frozen=True)
class Saving:
    """What was measured of a network.

    Attributes:
        network: its name.
        bytes_per_sample: that are kept.
        whole_ms: of a step of each run without features.
        over_ms: of a step over features.
        ratios: seconds of a run without features over those of one with them.
    """

    network: str
    bytes_per_sample: int
    whole_ms: Sequence[float]
    over_ms: Sequence[float]
    ratios: Sequence[float]

    def figures(self) -> dict[str, Any]:
        """For docs/howto/adapt.md."""
        return {
            "network": self.network,
            "bytes_per_sample": self.bytes_per_sample,
            "whole_ms": list(self.whole_ms),
            "over_ms": list(self.over_ms),
            "ratios": list(self.ratios),
        }


class _Steps(odtc.Callback):
    """Takes the time of each step."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._before = 0.0

    def on_train_batch_end(self, run: Any, step: int, loss: float) -> None:
        self.ms.append(1000 * (run.seconds - self._before))
        self._before = run.seconds


def saving(network: str, batch: int, samples: int, epochs: int, pairs: int, at: Path) -> Saving:
    """Measures a network."""
    case, path = case_of(network, batch), at / "net.onnx"
    onnx.save(case.model, path)
    options = {"train": ["last{k=1}"], "freeze_batch_norm": True}
    artifact = odtc.compile(path, batch=batch, loss=case.loss, **options)
    (fed,) = artifact.manifest.inputs
    drawn = np.random.default_rng(0)
    x = drawn.random((samples, *fed.shape[1:]), np.float32)
    classes = artifact.manifest.labels[0].classes
    y = drawn.integers(0, classes.count if classes else 2, samples).astype(np.int32)

    def run(cache: int | str) -> tuple[float, float, list[float]]:
        trainer, steps = artifact.trainer(threads=1), _Steps()
        began = time.perf_counter()
        history = trainer.fit(
            (x, y), lr=1e-3, epochs=epochs, callbacks=[steps], feature_cache=cache
        )
        seconds = time.perf_counter() - began
        trainer.close()
        return seconds, median(steps.ms), history["loss"]

    found: dict[int | str, list[tuple[float, float, list[float]]]] = {_WHOLE: [], _KEPT: []}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "fit: what frozen layers make")
        for number in range(pairs):
            for cache in (_WHOLE, _KEPT) if number % 2 else (_KEPT, _WHOLE):
                found[cache].append(run(cache))
    whole, kept = found[_WHOLE], found[_KEPT]
    if any(each[2] != whole[0][2] for each in (*whole, *kept)):
        raise AssertionError(f"{network}: losses differ")
    features = artifact.manifest.features[0].arguments
    return Saving(
        network,
        sum(item.spec.nbytes for item in features) // artifact.manifest.micro_batch,
        [each[1] for each in whole],
        [each[1] for each in kept],
        [a[0] / b[0] for a, b in zip(whole, kept, strict=True)],
    )


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.features", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", nargs="+", default=_NETWORKS, help="whose last layer is trained")
    add_sizes(parser, batch=8)
    add("--samples", type=positive, default=64, help="images that are drawn")
    add("--epochs", type=positive, default=10, help="of a run")
    add("--pairs", type=positive, default=5, help="of runs")
    add_files(parser, "features")
    add_figures(parser, "howto/features")
    options = parser.parse_args()
    console, said = terminal(), about() | {"threads": 1}
    sizes = options.batch, options.samples, options.epochs, options.pairs
    introduce(console, said, f"{options.pairs} pairs of runs of {options.epochs} epochs")
    table = numbers_table(
        "network", "bytes a sample", "step, ms", "over features, ms", "run, ratio"
    )
    rows = []
    for network in options.networks:
        with TemporaryDirectory() as folder:
            row = saving(network, *sizes, Path(folder))
        rows.append(row)
        table.add_row(
            row.network,
            f"{row.bytes_per_sample:,}",
            *(spread(each).text() for each in (row.whole_ms, row.over_ms, row.ratios)),
        )
    console.print(table)
    write_json(said, "rows", rows, options.json)
    write_figures(options.figures, said, [row.figures() for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
