"""The profile of steps that a smaller plan takes, as there is no memory for that of theirs."""

import json
import subprocess
import sys
from pathlib import Path

import onnx

import odtc
from tests.native.parity import TARGET
from tests.numeric.plans.test_memory_budget import tower

LIMITED = """
import json, resource, sys
import numpy as np
import odtc
artifact = odtc.load(sys.argv[1])
trainer = artifact.trainer(threads=1)
plans = artifact.manifest.plans
x, y = np.ones(artifact.manifest.inputs[0].shape, np.float32), np.arange(4) % 8
trainer.set_budget(artifact.manifest.budget_of(plans[-1]))
with trainer.profile():  # what a profile needs is there then
    trainer.step(x, y, lr=0.05)
trainer.set_budget(artifact.manifest.budget_of(plans[0]))
size = next(line for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = (int(size.split()[1]) << 10) + (plans[0].arena_bytes - plans[-1].arena_bytes) // 2
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with trainer.profile() as profiling:
    trainer.step(x, y, lr=0.05)
    trainer.step(x, y, lr=0.05)
print(json.dumps([trainer.plan.function, len(profiling.profile.steps)]))
"""


def test_a_profile_knows_the_plan_that_was_taken(tmp_path: Path) -> None:
    # Plans that differ by megabytes: what memory the allocator still has is then no place for one.
    onnx.save(tower(layers=3, size=96), path := tmp_path / "tower.onnx")
    artifact = odtc.compile(path, TARGET, batch=4, memory_budget="auto")
    plans = artifact.manifest.plans
    artifact.save(saved := tmp_path / "m.odtc")
    command = [sys.executable, "-c", LIMITED, str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr[-2000:]
    function, steps = json.loads(done.stdout)
    assert function != plans[0].function
    assert steps == 2
