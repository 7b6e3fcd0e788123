"""Nothing that is worse is left out: each such row is named, and each cell says something."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from benchmarks.pages.adapter_losses import adapter_losses, losses_in
from benchmarks.pages.core_losses import core_losses
from benchmarks.pages.core_losses import losses_in as losses_on_cores
from benchmarks.pages.gpu_losses import gpu_losses
from benchmarks.pages.result import RESULTS, read_result
from benchmarks.pages.result import Result as Figures
from benchmarks.pages.suites import results_page
from benchmarks.pages.text import median_of
from odtc.comparison.outcome import Outcome
from odtc.comparison.results import Result
from odtc.report.markdown import markdown
from odtc.report.page import page
from odtc.report.read import read


def _over(it: Result, name: str) -> float | None:
    theirs, ours = getattr(it, name), getattr(Result(it.ours, it.ours), name)
    return theirs / ours if theirs and ours else None


def _first(it: Result) -> float | None:
    ours = Result(it.ours, it.ours)
    if it.outcome is not Outcome.TRAINED or ours.outcome is not Outcome.TRAINED:
        return None
    sums = [(each.prepare_seconds or 0) + (each.load_seconds or 0) for each in (it, ours)]
    return sums[0] / sums[1]


# By hand, so that nothing is shared with what makes the page.
WORSE: dict[str, Callable[[Result], float | None]] = {
    "time of a step": lambda it: it.ratio.median if it.ratio else None,
    "memory, net of imports": lambda it: _over(it, "net"),
    "memory of the process in all": lambda it: _over(it, "peak"),
    "compiling and loading, until the first step": _first,
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """The rows that docs/results.md is made of."""
    return sorted(RESULTS.glob("*.jsonl"))


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.S)
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


def test_each_row_that_is_worse_is_named(files: list[Path]) -> None:
    lost = 0
    for file in files:
        material = read([file])
        html = page(material, "x")
        table = html.partition('<table id="losses">')[2].partition("</table>")[0]
        named = {tuple(row[:5]) for row in cells(table)}
        text = markdown(material, "x").replace("\\", "")
        for it in material.results:
            place = (it.setting.model, str(it.setting.batch), str(it.setting.threads), it.engine)
            for what, ratio in WORSE.items():
                found = None if it.is_ours else ratio(it)
                if found is not None and found < 1:
                    lost += 1
                    assert (*place, what) in named
                    (line,) = re.findall(
                        f"^- {re.escape(f'{what}, {it.engine}, in')} .*", text, re.M
                    )
                    assert it.setting.text() in line
    assert lost > 100


def test_what_odtc_does_not_train_is_named(files: list[Path]) -> None:
    failed = {
        it.setting.text()
        for it in read(files).results
        if it.is_ours and it.outcome is not Outcome.TRAINED
    }
    text = results_page().replace("\\", "")
    assert failed
    for setting in failed:
        assert f"- not trained: {setting}, odtc" in text


def test_who_trained_what_odtc_did_not_is_named(files: list[Path]) -> None:
    """odtc within a budget among them."""
    text = markdown(read(files), "Results")
    lost = re.findall(r"^- not trained: (.*); trained by (.*)$", text, re.M)
    with_budget = [each for each in lost if ", odtc: " in each[0] and "odtc, 4GB" in each[1]]
    assert len(with_budget) == 2, lost


def test_no_cell_is_empty(files: list[Path]) -> None:
    material = read(files)
    html = page(material, "x")
    table = html.partition('<table id="results">')[2].partition("</table>")[0]
    rows = [row for row in cells(table) if row]
    assert len(rows) == len(material.results)
    assert all(all(row) for row in rows)
    for line in markdown(material, "x").splitlines():
        if line.startswith("| ") and not line.startswith("|  |"):
            assert not re.search(r"\|\s*\|", line), line


def test_losses_on_gpus_are_in_front_too() -> None:
    worse = [
        (f"{row['model']}{precision}", row["through"], "PyTorch", "time", median_of(row["ratio"]))
        for name, precision in (("gpu_steps", ""), ("gpu_mixed", ", mixed precision"))
        for row in read_result(f"performance/{name}").rows
    ]
    for row in read_result("language_models/gpu").rows:
        for key, peer in (
            ("pytorch", "PyTorch"),
            ("checkpointed", "PyTorch with gradient checkpointing"),
        ):
            case = f"{row['model']}, {row['base']}", row["through"], peer
            worse.append((*case, "time", median_of(row[key]["ratio"])))
            worse.append((*case, "memory", row[key]["bytes"] / row["bytes"]))
    expected = {(*case, f"{ratio:.2f}") for *case, ratio in worse if ratio < 1}
    said = [line for line in gpu_losses() if line.startswith("| ")][1:]
    assert expected
    assert {tuple(line.strip("| ").split(" | ")) for line in said} == expected
    assert results_page().index("Where odtc loses on a GPU") < results_page().index("### ")


def test_losses_on_more_threads_are_in_front_too() -> None:
    machine = {"cpu": "a CPU", "cores": 8}
    run = {"machine": machine, "date": "2026-11-29", "commit": "abc"}
    rows = [
        {"model": "net", "batch": 4, "threads": threads, "ratio": [ratio]}
        for threads, ratio in ((1, 2.0), (4, 0.9), (8, 0.8))
    ]
    lines = [*losses_on_cores("performance/cores", "on-more-threads", Figures([run], rows, {}))]
    assert (
        "On a CPU, 8 cores, a step of PyTorch is faster in 2 of 3 comparisons on 1 to 8"
        in (lines[0])
    )
    assert [line for line in lines if line.startswith("| net")] == [
        "| net | 8 | PyTorch | time | 0.80 |",
        "| net | 4 | PyTorch | time | 0.90 |",
    ]
    page = results_page()
    assert "\n".join(core_losses()) in page
    assert page.index("Where odtc loses time on CPUs") < page.index("### ")
    peers = {"ratios": {"PyTorch": [1.1], "onnxruntime-training": [0.7]}}
    of_peers = Figures([run], [{"model": "net", "batch": 4, "threads": 1, **peers}], {})
    lines = [*losses_on_cores("performance/step_time", "on-a-cpu", of_peers)]
    assert "a step of PyTorch or onnxruntime-training is faster in 1 of 2" in lines[0]
    assert "| net | 1 | onnxruntime-training | time | 0.70 |" in lines


def test_losses_with_adapters_are_in_front_too() -> None:
    slow = {"ms": [2.0, 2.0], "net": 5, "ratio": [0.5, 0.7]}
    case = {"model": "net", "tokens": 4, "base": "int4", "ms": [4.0, 3.0], "net": 4}
    rows = [
        {**case, "pytorch": {**slow, "net": 3}, "checkpointed": {**slow, "ratio": [1.0, 2.0]}},
        {**case, "base": "int8", "pytorch": {"skipped": "it ended"}, "checkpointed": slow},
        {"model": "net", "tokens": 4, "base": "float32", "skipped": "losses differ"},
    ]
    run = read_result("language_models/steps").runs[0]
    lines = [*losses_in("language_models/steps", Figures([run], rows, {}))]
    assert "of 6 comparisons" in lines[0]
    assert "loses 3." in lines[0]
    assert [line for line in lines if line.startswith("| net")] == [
        "| net | 4 | int4 | PyTorch | time | 0.60 |",
        "| net | 4 | int4 | PyTorch | memory | 0.75 |",
        "| net | 4 | int8 | PyTorch with gradient checkpointing | time | 0.60 |",
    ]
    assert "- not timed: net, 4 tokens, float32: losses differ" in lines
    page = results_page()
    assert "\n".join(adapter_losses()) in page
    assert page.index("Where odtc loses with adapters") < page.index("### ")
