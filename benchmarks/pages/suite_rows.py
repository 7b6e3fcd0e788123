"""Rows of `odtc bench` that docs/results.md has."""

from functools import cache

from benchmarks.pages.result import RESULTS, Result, Row, read_result
from odtc.comparison.row import Setting
from odtc.report.read import Material, read

SUITES = "comparison/suites"
ON_PAGE = ".jsonl"


@cache
def material_of(*stems: str) -> Material:
    """The rows of files in docs/results."""
    return read([RESULTS / f"{stem}{ON_PAGE}" for stem in stems])


def stems() -> list[str]:
    """Files of rows, in the order of the page."""
    files = [run["file"] for run in read_result(SUITES).runs]
    return [file.removesuffix(ON_PAGE) for file in files if file.endswith(ON_PAGE)]


def settings(core: str) -> set[Setting]:
    """Models, batches and threads whose times on a kind of core docs/results.md has."""
    files = [file for file in map(material_of, stems()) if file.heads]
    there = (file for file in files if file.heads[0]["machine"].get("core", "") == core)
    found = (each for file in there for each in file.results)
    return {each.setting for each in found if each.is_ours and each.step}


def not_in_suites(result: Result) -> list[Row]:
    """Rows of steps that docs/results.md does not have from the same kind of core."""
    core = result.runs[0]["machine"].get("core", "")
    known = {(each.model, each.batch, each.threads) for each in settings(core)}
    return [row for row in result.rows if (row["model"], row["batch"], row["threads"]) not in known]
