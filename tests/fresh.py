"""A fresh environment: `pip install` of the wheel, then the tutorial's commands.

    python -m tests.fresh python3.12          # what needs PyTorch is done by this environment
    python -m tests.fresh python3.11 --torch  # all of it by the fresh one

The environment, the user's folder with odtc's caches, and all files lie in a temporary folder
outside of the repository. A wheel of PyTorch is large, and not in each index for each Python:
without `--torch` two commands of the tutorial, which read the module, run here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.pages.followed import commands
from tests.pages.test_tutorial import PEERS, PHONE, sections
from tests.wheels import ROOT, build_wheel, copied

# data.py takes its digits from scikit-learn; onnxruntime runs what is exported.
NEEDED = ("scikit-learn", "onnxruntime")
TORCH = (["python", "train.py"], ["odtc", "export"])
SAY_WHERE = "import odtc, sys; print(odtc.__file__, odtc.__version__, sys.version.split()[0])"


def main() -> int:
    """Does it; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fresh", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("python", help="such as python3.12")
    parser.add_argument("--torch", action="store_true", help="install PyTorch, too")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        more = ["torch", "onnxscript"] if options.torch else []
        installed = install(options.python, folder, more)
        where = run([installed / "python", "-c", SAY_WHERE], folder, capture=True)
        print(where, end="")
        assert where.startswith(f"{folder}/"), "another odtc than that of the wheel"
        follow_tutorial(installed, folder, torch=options.torch)
    print(f"green, in {time.monotonic() - began:.0f} s")
    return 0


def install(python: str, folder: Path, more: Sequence[str]) -> Path:
    """Makes the environment with a wheel of the sources; returns the folder of its programs."""
    copied(source := folder / "source")
    built = build_wheel(source, folder, dict(os.environ))
    assert not built.returncode, built.stderr
    shutil.rmtree(source)
    (wheel,) = folder.glob("*.whl")
    run([python, "-m", "venv", folder / "env"], folder)
    programs = folder / "env" / "bin"
    pip = [programs / "python", "-m", "pip"]
    run([*pip, "install", "--quiet", f"{wheel}[compile]", *NEEDED, *more], folder)
    run([*pip, "check"], folder)
    return programs


def follow_tutorial(programs: Path, folder: Path, *, torch: bool) -> None:
    """Does what its sections say that need neither a phone nor other libraries."""
    work = folder / "work"
    work.mkdir()
    os.chdir(work)
    here = {"python": [sys.executable], "odtc": [sys.executable, "-m", "odtc"]}
    for section, text in sections().items():
        if section in (PHONE, PEERS):
            continue
        for program, *words in commands(text):
            is_here = not torch and any([program, *words][: len(c)] == c for c in TORCH)
            found = here[program] if is_here else [programs / program]
            print("$", program, *words, "  (here)" * is_here, flush=True)
            run([*found, *words], folder, env={"PYTHONPATH": str(ROOT)} if is_here else {})
    assert (work / "trained.onnx").exists()
    assert (work / "small.odtc").exists()


def run(
    command: Sequence[str | Path],
    folder: Path,
    *,
    env: dict[str, str] | None = None,
    capture: bool = False,
) -> str:
    """Runs a command, of a user whose folder is `folder`; returns what it printed."""
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "LC_"))}
    kept |= {"PATH": os.defpath, "HOME": str(folder)} | (env or {})
    path = shutil.which(command[0]) or command[0]
    done = subprocess.run(
        [path, *command[1:]],
        env=kept,
        check=True,
        text=True,
        stdout=subprocess.PIPE if capture else None,
        timeout=600,
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
