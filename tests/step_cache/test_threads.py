"""Threads that compile have what they asked for."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import odtc
from odtc.core.disk.content_store import nothing_kept
from tests.step_cache.model_files import write_model


def test_threads_compile_one_at_a_time(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")

    def library(seed: int) -> bytes:
        with odtc.compile(model, seed=seed) as artifact:
            return artifact._bundle.library.read_bytes()

    with nothing_kept():
        alone = [library(seed) for seed in (0, 1)]
        with ThreadPoolExecutor(3) as threads:
            together = list(threads.map(library, (0, 1, 0)))
    assert together == [*alone, alone[0]]
