"""Pages of what `odtc compare` and `odtc bench` measured: docs/results.md, README's table.

docs/results/comparison/suites.json says of each file of rows which command measured it, and when;
the rows themselves have the machine, the versions and every sample.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.pages.adapter_losses import adapter_losses
from benchmarks.pages.core_losses import core_losses
from benchmarks.pages.gpu_losses import gpu_losses
from benchmarks.pages.measured import busy_text, when_text
from benchmarks.pages.picture import README_ROWS
from benchmarks.pages.result import read_result
from benchmarks.pages.suite_rows import ON_PAGE, SUITES, material_of, stems
from benchmarks.pages.text import listed, number, table
from odtc.comparison.measures.measure import cpu_text
from odtc.comparison.results import Result, by_setting
from odtc.report.markdown import markdown

_SAID = ("torch", "onnxruntime-training")
_PEERS = {"pytorch": "PyTorch", "onnxruntime-training": "onnxruntime-training"}


def results_page() -> str:
    """Losses on CPUs, GPUs and with adapters; then what `odtc report` prints, and their age."""
    names = stems()
    runs = {run["file"].removesuffix(ON_PAGE): run for run in read_result(SUITES).runs}
    head, *sections = markdown(material_of(*names), "Results").split("\n## ")
    noted = [
        _noted(section, f"Rows: [{stem}.jsonl](results/{stem}.jsonl); {when_text(runs[stem])}.")
        for stem, section in zip(names, sections, strict=True)
    ]
    lines = "\n".join([*core_losses(), "", *gpu_losses(), "", *adapter_losses()])
    return "\n## ".join([f"{head}\n{lines}\n", *noted])


def _noted(section: str, note: str) -> str:
    """A section with a line behind its title and the line of its machine."""
    title, blank, where, *rest = section.split("\n")
    return "\n".join([title, blank, where, "", note, *rest])


def files() -> list[str]:
    """The files of rows, each with its command and its age."""
    heads = ("rows", "measured by", "threads", "rounds", "when")
    runs = read_result(SUITES).runs
    cells = ((f"`{run['file']}`", _words(run), *_counts(run), when_text(run)) for run in runs)
    return table(heads, cells, words=5)


def _counts(run: Mapping[str, Any]) -> tuple[str, str]:
    """Threads and rounds of its comparisons; empty where it has none."""
    stem, dot, suffix = run["file"].rpartition(".")
    rows = material_of(stem).rows if dot + suffix == ON_PAGE else []
    found = [row for each in rows for row in each]
    threads = sorted({row.setting.threads for row in found})
    rounds = str(1 + max(row.round for row in found)) if found else ""
    return listed(threads), rounds


def _words(run: Mapping[str, Any]) -> str:
    terms = "".join(f", {each}" for each in busy_text(run))
    return f"`{run['command']}`{run.get('conditions', '')}{terms}"


def one_thread(stem: str = README_ROWS) -> list[str]:
    """README's table, a line for each network of a file's rows, and what it comes to."""
    material = material_of(stem)
    (head,) = material.heads
    chosen = [
        (setting.model, {each.engine: each for each in group})
        for setting, group in by_setting(material.results)
    ]
    heads = ("model", "odtc, ms", "compile, s")
    for name in _PEERS.values():
        heads += (f"{name}: time", "memory, net", "memory, in all")
    rows = []
    for model, by_engine in chosen:
        ours = by_engine["odtc"]
        assert ours.step
        rows.append(
            (
                model,
                number(ours.step.median * 1e3),
                number(ours.prepare_seconds),
                *(cell for name in _PEERS for cell in _ratios(by_engine[name])),
            )
        )
    runs = {run["file"]: run for run in read_result(SUITES).runs}
    run = runs[f"{stem}{ON_PAGE}"]
    versions = ", ".join(f"{name} {head['versions'][name]}" for name in _SAID)
    where = "one core" if head["machine"]["cores"] == 1 else "one thread"
    busy = "".join(f"; {each}" for each in busy_text(run))
    said = f"Measured on {cpu_text(head['machine'])}, {where}; {versions}{busy}; {when_text(run)}."
    return [_in_short([each for _, each in chosen]), "", *table(heads, rows), "", said]


def _in_short(chosen: Sequence[Mapping[str, Result]]) -> str:
    """The least and the most of each peer."""
    time, memory = [], []
    for engine, name in _PEERS.items():
        peers = [by_engine[engine] for by_engine in chosen]
        times = [each.ratio.median for each in peers if each.ratio]
        wholes = [whole for each in peers if (whole := _whole(each))]
        time.append(f"{min(times):.2f} to {max(times):.2f} times as long with {name}")
        memory.append(f"{min(wholes):.1f} to {max(wholes):.1f} times the memory with {name}")
    return (
        f"Compared with odtc, a step of these networks takes {listed(time)}. The whole process "
        f"needs {listed(memory)}."
    )


def _ratios(peer: Result) -> Iterator[str]:
    """Time, memory net of imports and memory in all, over odtc's."""
    yield f"{peer.ratio.median:.2f}" if peer.ratio else ""
    yield from (number(each) for each in (peer.memory_ratio, _whole(peer)))


def _whole(peer: Result) -> float | None:
    return peer.peak / peer.own.peak if peer.peak and peer.own.peak else None
