"""Repeated work of a long-lived process leaks no memory, mappings, threads or files."""

import json
import subprocess
import sys

import onnx
import pytest

import odtc
from tests.numeric.mlp import mlp_model

# Of one process: kilobytes, and counts, that each repetition adds.
MEASURE = """
import gc, json, os, sys
import numpy as np
import odtc

path, repeat = sys.argv[1], int(sys.argv[2])
x, y = np.ones((8, 8), np.float32), np.zeros(8, int)

def now():
    gc.collect()
    kilobytes = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
    mappings = sum(1 for _ in open("/proc/self/maps"))
    counts = [len(os.listdir(f"/proc/self/{each}")) for each in ("fd", "task")]
    return np.array([kilobytes, mappings, *counts])

def use(artifact):
    trainer = artifact.trainer(threads=1)
    trainer.step(x, y, 0.1)
    trainer.evaluate(x)
    return trainer

kept = odtc.load(path)
trainer = use(kept)
plans = [memory.arena_bytes for memory in kept.memories]

def change_plan():
    for arena in plans:
        trainer.set_budget(arena)
        trainer.step(x, y, 0.1)

work = {
    "load": (lambda: use(odtc.load(path)), repeat),
    "trainer": (lambda: use(kept), repeat),
    "step": (lambda: trainer.step(x, y, 0.1), 10 * repeat),
    "plan": (change_plan, max(repeat // 3, 2)),
}
found = {}
for name, (once, times) in work.items():
    for _ in range(5):
        once()
    before = now()
    for _ in range(times):
        once()
    found[name] = ((now() - before) / times).tolist()
print(json.dumps(found))
"""
# Freed memory goes back to the allocator in pieces of its own: few repetitions show its rounding.
KILOBYTES = {40: 30.0, 1000: 3.0}


@pytest.mark.parametrize("repeat", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_adds_up(repeat: int, tmp_path) -> None:
    onnx.save(mlp_model(), tmp_path / "m.onnx")
    options = {"batch": 8, "memory_budget": "auto"}
    odtc.compile(tmp_path / "m.onnx", "host-cpu{threads=1}", **options).save(tmp_path / "m.odtc")
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "m.odtc"), str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert not done.returncode, done.stderr[-2000:]
    for name, (kilobytes, *counts) in json.loads(done.stdout).items():
        assert max(counts) < 0.1, (name, counts)
        assert kilobytes < KILOBYTES[repeat], (name, kilobytes)
