"""`python -m tests.native.sanitized`: the native runtime under the sanitizers of C.

10,000 edited files of each kind, read under ASan and UBSan; two trainers in two threads, under
these and under TSan. The tests do the same with fewer.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

import odtc
from odtc.runtime_rpc.native.build import FOLDER, compiler_of_c
from tests.native.parity import TARGET, unpacked
from tests.numeric.plans.test_memory_budget import tower

ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
THREAD = ("-fsanitize=thread",)
_FLAGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
PROGRAMS = Path(__file__).with_name("programs")
CHECKPOINT = "checkpoint"
_MEMBERS = ("program.bin", "parameters.safetensors", "step.so")


def build(name: str, folder: Path, flags: Sequence[str]) -> Path:
    """Compiles one of the programs in C with the runtime."""
    sources = [str(path) for path in sorted(FOLDER.glob("*.c"))]
    output = folder / f"{name}{len(flags)}"
    command = [*compiler_of_c(), *_FLAGS, *flags, f"-I{FOLDER}"]
    command += [str(PROGRAMS / f"{name}.c"), *sources, "-o", str(output)]
    subprocess.run([*command, "-lpthread", "-ldl", "-lm"], check=True)
    return output


def small_artifact(folder: Path) -> Path:
    """The members of a step with several plans, batch normalisations, dropout and averages."""
    onnx.save(tower(layers=1), path := folder / "tower.onnx")
    update = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9, loss_scale="dynamic")
    options = {"memory_budget": "auto", "eval_batch": (1, 3)}
    made = odtc.compile(path, TARGET, batch=4, optimizer=update, **options)
    members = unpacked(made, folder / "artifact")
    with made.trainer(threads=1) as trainer:
        trainer.save_checkpoint(members / CHECKPOINT)
    return members


def fuzzed(members: Path, folder: Path, mutations: int, seed: int = 1) -> list[int]:
    """How many edited files of each kind were read: programs, weights, libraries, checkpoints."""
    after = [str(members / CHECKPOINT), str(folder / "scratch")]
    fuzz = build("fuzz", folder, ADDRESS)
    return [*map(int, run(fuzz, members, [str(mutations), str(seed)], after).split())]


def run(program: Path, members: Path, before: Sequence[str], after: Sequence[str] = ()) -> str:
    """Runs a program on an artifact's files; what it prints."""
    paths = [str(members / name) for name in _MEMBERS]
    command = [str(program), *before, *paths, *after]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{program.name} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.sanitized", description=__doc__)
    parser.add_argument("--mutations", type=int, default=10_000, help="of each file")
    parser.add_argument("--seed", type=int, default=1, help="of the first")
    parser.add_argument("--steps", type=int, default=200, help="of each trainer")
    args = parser.parse_args(argv)
    with TemporaryDirectory() as name:
        folder = Path(name)
        members = small_artifact(folder)
        kinds = ("programs", "weights", "libraries", "checkpoints")
        found = fuzzed(members, folder, args.mutations, args.seed)
        for kind, count in zip(kinds, found, strict=True):
            print(f"of {args.mutations:,} edited {kind} {count:,} were read, the others refused")
        for flags in (ADDRESS, THREAD):
            two = build("two_trainers", folder, flags)
            run(two, members, [], [str(args.steps), "4"])
            print(f"two trainers in two threads: {flags[0]} found nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
