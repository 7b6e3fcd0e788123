"""A clone for each test."""

import json
from pathlib import Path

import pytest

from benchmarks.pages.suite_rows import SUITES
from benchmarks.results.place import Place
from odtc.comparison.measures.measure import machine
from tests.benchmarks.results.clone import IGNORED, PAGES, TINY, committed, git


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A clone that is measured in no time."""
    files = {
        "tiny.py": TINY,
        "machine.json": json.dumps(machine()),
        "benchmarks/__init__.py": "",
        "benchmarks/pages.py": PAGES,
        ".gitignore": IGNORED,
        "README.md": "",
        f"docs/results/{SUITES}.json": json.dumps({"runs": [{"file": "s.jsonl"}], "rows": []}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    committed(tmp_path)
    return Place(tmp_path)
