"""Results by hand, with everything that a page can have: losses, failures, several rounds."""

import json
import random
from pathlib import Path

from odtc.comparison.outcome import Outcome
from odtc.comparison.row import ComparisonRow, Setting

ENGINES = {
    "odtc": (1.0, 1.0),
    "odtc, 32MiB": (1.06, 0.7),
    "onnxruntime-training": (1.9, 3.1),
    "pytorch": (1.5, 2.5),
    "mnn": (0.0, 0.0),
    "tvm": (31.0, 2.0),
}
MODELS = {"lenet <b>": (2.0, 3.0), "resnet50": (400.0, 330.0), "bert_tiny": (20.0, 90.0)}
REASONS = {
    "mnn": (Outcome.MISMATCH, "its losses are 2.30000, 2.30000; those of odtc are 2.30000, 2.28"),
    "tvm": (Outcome.UNSUPPORTED, "RuntimeError: TVM cannot train it: <no gradient> of X"),
}
HEAD = {
    "engines": list(ENGINES),
    "steps": 8,
    "memory_limit": 8_000_000_000,
    "machine": {"cpu": "A CPU", "cores": 2, "system": "Linux x86_64", "python": "3.11"},
    "versions": {"odtc": "0.1.0", "torch": "2.13.0"},
    "commit": "0123456789ab",
    "suite": {
        "published": [
            {
                "title": "A paper's table",
                "source": "Somebody, 2021, on a phone",
                "heads": ["platform", "library", "batch 1, ms"],
                "rows": [["Note 10", "MNN", 516.0], ["Note 10", "DL4J", 3032.0]],
            }
        ]
    },
}


def rows() -> list[ComparisonRow]:
    """Of three models, two batches, two rounds."""
    chance = random.Random(0)
    found = []
    for model, (milliseconds, megabytes) in MODELS.items():
        for batch in (1, 4):
            for number in (0, 1):
                at = Setting(model, batch, 1)
                for engine, (slower, larger) in ENGINES.items():
                    usual = milliseconds * slower * (0.3 + 0.7 * batch) / 1e3
                    if model == "bert_tiny" and engine == "pytorch":
                        usual *= 0.5
                    failed = REASONS.get(engine) if model != "lenet <b>" or not slower else None
                    outcome, reason = failed or (Outcome.TRAINED, "")
                    seconds = tuple(usual * chance.gauss(1, 0.03) for _ in range(8))
                    net = int(megabytes * larger * (0.5 + 0.5 * batch) * 1e6)
                    times = {} if failed else {"seconds": seconds, "cpu_seconds": seconds}
                    sizes = {} if failed else {"imported": 10**8, "peak": 10**8 + net}
                    found.append(
                        ComparisonRow(
                            at,
                            number,
                            engine,
                            outcome,
                            reason,
                            prepare_seconds=4.0,
                            load_seconds=0.2,
                            planned=net if engine.startswith("odtc") else None,
                            busy=(0.01, 0.02),
                            flops=10**9 * batch,
                            moved=10**8,
                            fma=2e11,
                            copy=1e10,
                            began="2026-01-02T03:04:05+00:00",
                            **times,
                            **sizes,
                        )
                    )
    return found


def write_rows(path: Path, found: list[ComparisonRow] | None = None) -> Path:
    """A file of rows."""
    lines = [{"comparison": HEAD}, *(row.to_dict() for row in rows() if found is None)]
    lines += [row.to_dict() for row in found or []]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def write_frontier(path: Path) -> Path:
    """Writes a file as `odtc plan --json` prints it."""
    points = [
        {"arena_bytes": 10**8 - 10**7 * n, "time": 1 + 0.01 * n * n, "calls": 9, "repeated": n}
        for n in range(6)
    ]
    beside = {"lower_bound_bytes": 10**7, "parameter_bytes": 10**6, "optimizer_bytes": 0}
    path.write_text(json.dumps({"points": points, **beside}))
    return path
