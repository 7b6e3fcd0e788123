"""Engines in processes of their own: they agree and take turns, or have a row that says why not."""

import dataclasses
import time

import pytest

from odtc.comparison import turns
from odtc.comparison.comparison import entries_of
from odtc.comparison.outcome import Outcome
from odtc.comparison.row import ComparisonRow, Setting
from odtc.comparison.turns import PreparedCase, Round
from odtc.core.process.progress import silent
from tests.comparison.conftest import MODULE

AT = Setting("digits", 4, 1)
ODTC, TORCH, ORT = "odtc", "pytorch", "onnxruntime-training"


def measured(
    ready: PreparedCase, *peers: str, limit: float = 300, steps: int = 3, **case
) -> list[ComparisonRow]:
    """Rows of odtc and its peers, of a case that differs in this."""
    own = dataclasses.replace(ready, case=dataclasses.replace(ready.case, **case))
    return Round(own, AT, 0, limit, silent).rows(entries_of(peers, []), steps)


def test_engines_of_one_round_agree_and_are_measured(ready: PreparedCase) -> None:
    entries = entries_of([ORT, TORCH], ["160KB"])
    rows = Round(ready, AT, 1, 300, silent).rows(entries, 4)
    assert [row.engine for row in rows] == ["odtc", "odtc, 160KB", ORT, TORCH]
    for row in rows:
        assert (row.outcome, row.reason, row.setting, row.round) == ("trained", "", AT, 1)
        assert len(row.seconds) == len(row.cpu_seconds) == 4
        assert min(row.seconds) > 0
        assert row.imported < row.ready <= row.peak
        assert row.losses == pytest.approx(rows[0].losses, rel=1e-4)
        assert row.prepare_seconds is not None
        assert row.load_seconds > 0
        assert row.flops == rows[0].flops > 0
    assert rows[1].planned <= rows[0].planned
    # The rate was chosen, so that the loss changes, and little.
    assert 0.0005 < 1 - rows[0].losses[-1] / rows[0].losses[0] < 0.01


@pytest.mark.parametrize("task", ["data", "prepare"])
def test_tvm_is_imported_without_pytorch(ready: PreparedCase, task: str) -> None:
    """That would take longer than all else of what odtc does before its steps."""
    log = (ready.folder / ODTC / f"{task}.log").read_text()
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines()}
    assert "tvm.relax" in imported
    # PyTorch itself is looked for.
    assert "torch.nn" not in imported


def test_another_gradient_ends_a_peer(ready: PreparedCase) -> None:
    ours, other = measured(ready, TORCH, module=f"{MODULE}Frozen")
    assert other.outcome is Outcome.MISMATCH
    assert "those of odtc are" in other.reason
    assert other.seconds == ()
    assert len(ours.seconds) == 3


def test_a_crash_costs_its_own_row_only(ready: PreparedCase) -> None:
    ours, other = measured(ready, TORCH, module=f"{MODULE}Crash")
    assert other.outcome is Outcome.CRASHED
    assert other.reason.startswith("it died of SIGSEGV")
    assert len(other.seconds) == 1
    assert len(ours.seconds) == 3


@pytest.mark.slow
def test_a_peer_that_hangs_is_ended(ready: PreparedCase) -> None:
    began = time.monotonic()
    ours, other = measured(ready, TORCH, limit=25, steps=1, module=f"{MODULE}Hang")
    assert time.monotonic() - began < 120
    assert (other.outcome, other.reason) == (Outcome.HUNG, "no answer within 25 s")
    assert ours.outcome is Outcome.TRAINED


@pytest.mark.slow
def test_memory_is_limited_and_its_end_is_a_result(ready: PreparedCase) -> None:
    module = f"{MODULE}Greedy"
    ours, other = measured(ready, TORCH, steps=1, module=module, memory_limit=4 << 30)
    assert other.outcome is Outcome.MEMORY
    assert ours.outcome is Outcome.TRAINED
    # odtc is under the same limit.
    (ours,) = measured(ready, steps=1, memory_limit=1 << 20)
    assert ours.outcome is Outcome.MEMORY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "outcome", "reason"),
    [
        ("", Outcome.UNSUPPORTED, "pytorch needs a module: --module package:callable"),
        (f"{MODULE}Lacking", Outcome.UNSUPPORTED, "NotImplementedError: no such operator"),
        (f"{MODULE}NUMBER", Outcome.FAILED, f"'{MODULE}NUMBER' cannot be called"),
        ("no_such_package:x", Outcome.FAILED, "there is no module 'no_such_package:x': No module"),
    ],
)
def test_what_a_peer_lacks_is_said(ready: PreparedCase, module, outcome, reason) -> None:
    _, other = measured(ready, TORCH, steps=1, module=module)
    assert other.outcome is outcome
    assert other.reason.startswith(reason)


def test_peers_stand_where_odtc_fails(ready: PreparedCase, monkeypatch) -> None:
    failed = turns.WorkerError(Outcome.BUDGET, "too little")
    broken = dataclasses.replace(ready, failures={"odtc": failed}, known={})
    ours, other = Round(broken, AT, 0, 300, silent).rows(entries_of([ORT], []), 2)
    assert (ours.outcome, ours.reason, ours.seconds) == (Outcome.BUDGET, "too little", ())
    assert other.outcome is Outcome.TRAINED
    assert len(other.seconds) == 2
