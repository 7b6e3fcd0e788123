"""A clone of sources that are measured in no time, and what was measured in it."""

import subprocess
from pathlib import Path

from benchmarks.results import __main__ as command
from benchmarks.results.place import Place
from benchmarks.results.table import Kind, Row

# Writes a file of figures, or of rows, of the commit and the machine that it runs on.
TINY = """
import json, pathlib, subprocess, sys, time

what, option, path = sys.argv[-3:]
head = ["git", "rev-parse", "--short=12", "HEAD"]
commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
machine = json.loads(pathlib.Path("machine.json").read_text())
with open("asked.txt", "a") as asked:
    print(what, file=asked)
if what == "fails":
    print("no such network")
    sys.exit(3)
if what == "hangs":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path("hanging").touch()
    time.sleep(600)
run = {"date": "2026-01-02", "commit": commit, "machine": machine, "command": "x"}
if what == "writes-nothing":
    sys.exit(0)
if what == "changes-sources":
    pathlib.Path("tiny.py").write_text("changed")
    run["commit"] += "-dirty"
if option == "--figures":
    said = {"runs": [run], "rows": [{"what": what}], "by": {what: 1}}
    pathlib.Path(path).write_text(json.dumps(said))
else:
    lines = [] if pathlib.Path(path).exists() else [{"comparison": run}]
    lines += [{"what": what, "began": "2026-01-03T23:59:00+00:00", "busy": [0, 0.5]}]
    with open(path, "a") as rows:
        rows.writelines(json.dumps(each) + "\\n" for each in lines)
    sys.exit(14)
"""
# Stands for `benchmarks.pages`: a page of all rows, and an error behind some of it.
PAGES = """
import json, pathlib
rows = []
for path in sorted(pathlib.Path("docs/results").glob("*.json")):
    rows += [row["what"] for row in json.loads(path.read_text())["rows"]]
    pathlib.Path("README.md").write_text("".join(f"{row}\\n" for row in rows))
assert "breaks-a-page" not in rows
"""
IGNORED = "build/\nlogs/\nasked.txt\nhanging\n__pycache__/\n"


def tiny(name: str, *whats: str, kind: Kind = Kind.FIGURES) -> Row:
    return Row(name, [f"python -m tiny {what}" for what in whats or (name,)], 1, kind=kind)


def git(folder: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(folder), *name, *words], check=True, capture_output=True)


def committed(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "x")


def asked(place: Place) -> list[str]:
    """What was measured, in its order."""
    path = place.root / "asked.txt"
    return path.read_text().split() if path.exists() else []


def measured(place: Place, rows: list[Row], *words: str) -> int:
    return command.main(words, rows, Place(place.root))
