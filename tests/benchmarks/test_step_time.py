"""The comparison with peers: parity first, then in turns; its table and its picture."""

import json
import math
import timeit

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.ceilings import Ceilings
from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model
from benchmarks.output import write_json
from benchmarks.step_time import __main__ as command_line
from benchmarks.step_time import compare as comparing
from benchmarks.step_time import engines as making
from benchmarks.step_time.cases import NETWORKS, case_of, names
from benchmarks.step_time.compare import (
    StepComparison,
    Timing,
    compare,
    geometric_means,
    ratio,
)
from benchmarks.step_time.engines import ENGINES, USUAL
from benchmarks.step_time.report import (
    draw,
    draw_rooflines,
    reasons,
    summary,
    table_of,
)
from odtc.comparison.measures.ceilings import copy_peak, fma_peak
from odtc.comparison.measures.measure import (
    Spread,
    busy_share,
    cpu_text,
    machine,
    spread,
    versions,
)
from odtc.comparison.measures.parity import disagreement
from odtc.comparison.measures.workload import StepWork, training_work
from tests.timed import ROUNDS, figures

ONE = Ceilings(threads=2, fma=4e9, gemm=3e9, numpy_gemm=2e9, copy=1e9)


class Fake:
    """An engine that notes its steps in a common list."""

    def __init__(self, name, losses, order):
        self._name, self._losses, self._order = name, iter(losses), order

    def step(self, x, y):
        self._order.append(self._name)
        return next(self._losses, 0.5)


def broken(case, folder):
    raise RuntimeError("it has no operator X\nand says so at length")


@pytest.fixture
def order():
    return []


@pytest.fixture
def comparison(order, monkeypatch, tmp_path):
    """Four engines: odtc, one that agrees, one that does not, one that cannot."""
    losses = {"odtc": [2.0, 1.5, 1.0], "same": [2.0, 1.5, 1.001], "other": [2.0, 1.5, 1.1]}
    engines = {
        name: lambda case, folder, name=name: Fake(name, losses[name], order) for name in losses
    }
    monkeypatch.setattr(comparing, "PAUSE_SECONDS", 0.0)
    return compare(case_of("digits", 4), engines | {"broken": broken}, 2, tmp_path)


def test_engines_take_turns(order, comparison):
    parity = ["odtc"] * 3 + ["same"] * 3 + ["other"] * 3
    turn = ["odtc", "odtc", "same", "same"]
    assert order == parity + turn * 2
    assert [len(timing.seconds) for timing in comparison.timings] == [2, 2, 0, 0]


def test_a_mismatch_ends_the_comparison(comparison):
    reasons = [timing.skipped for timing in comparison.timings]
    assert reasons == [
        "",
        "",
        "its losses are 2.00000, 1.50000, 1.10000; those of odtc are 2.00000, 1.50000, 1.00000",
        "RuntimeError: it has no operator X",
    ]


def test_a_loss_that_is_not_a_number_is_a_mismatch():
    assert disagreement([math.nan] * 3, [1.0] * 3)
    # Two that overflow at the same step have shown nothing.
    for loss in (math.nan, math.inf):
        assert disagreement([1.0, loss], [1.0, loss])


def test_an_engine_that_stands_still_is_a_mismatch():
    expected = [7.5, 7.498, 7.496]
    assert disagreement([7.5, 7.5, 7.5], expected)
    assert not disagreement([7.50002, 7.49803, 7.49595], expected)


def test_odtc_itself_may_not_fail(tmp_path):
    with pytest.raises(RuntimeError, match="no operator X"):
        compare(case_of("digits", 4), {"odtc": broken}, 1, tmp_path)


def test_ratios_are_taken_turn_by_turn():
    ours, peer = Timing("odtc", seconds=[1.0, 2.0, 4.0]), Timing("peer", seconds=[2.0, 4.0, 8.0])
    assert ratio(peer, ours) == Spread(2.0, 2.0, 2.0)


def compared(model, threads, *peers):
    """A comparison in which odtc takes a second."""
    others = [Timing(f"peer {i}", seconds=[t] if t else []) for i, t in enumerate(peers)]
    timings = [Timing("odtc", seconds=[1.0]), *others]
    return StepComparison(model, 4, threads, 0.01, StepWork(2 * 10**9, 10**9), (0.0, 0.1), timings)


def test_the_faster_peer_counts_and_none_counts_not():
    runs = [compared("a", 1, 4.0, 9.0), compared("b", 1, 0.0, 1.0), compared("c", 2, 3.0)]
    assert geometric_means([*runs, compared("d", 1, 0.0)]) == {
        1: (pytest.approx(2.0), 2),
        2: (pytest.approx(3.0), 1),
    }
    assert "2.00 times odtc's time (geometric mean of 2 models)" in summary(runs)[0]


def test_results_are_written(tmp_path):
    comparisons = [compared("digits", 2, 2.0, 0.0)] * 4
    comparisons[0].timings[2].skipped = "why not"
    table = table_of(comparisons[:1])
    assert table.row_count == 3
    assert reasons(comparisons * 2) == ["digits, peer 1: why not"]
    assert list(table.columns[5].cells) == ["2.0", "1.0", ""]
    draw(comparisons, "a machine", tmp_path / "new" / "x.svg")
    draw_rooflines(comparisons, [ONE], "a machine", tmp_path / "r.svg")
    for picture in ("new/x.svg", "r.svg"):
        assert "</svg>" in (tmp_path / picture).read_text()
    write_json({"machine": machine()}, "comparisons", comparisons, tmp_path / "x.json")
    report = json.loads((tmp_path / "x.json").read_text())
    assert report["comparisons"][0]["timings"][1]["seconds"] == [2.0]
    assert report["machine"]["cores"] >= 1


def test_the_work_of_a_step_is_counted():
    # By hand: two convolutions and two products of 8x8 digits.
    shapes = {name: t.dims for t in digits_model().graph.initializer if (name := t.name)}
    pixels = {"conv1.weight": 64, "conv2.weight": 64, "fc1.weight": 1, "fc2.weight": 1}
    expected = sum(pixels.get(n, 0) * math.prod(dims) for n, dims in shapes.items())
    assert training_work(digits_model(), 32).flops == 3 * 2 * 32 * expected
    # SqueezeNet 1.1 has 0.349 billion multiply-adds; the batch of the file is 1.
    work = training_work(zoo_model("squeezenet"), 4)
    assert work.flops / 6 / 4 == pytest.approx(0.349e9, rel=2e-3)
    assert work.intensity == pytest.approx(work.flops / work.bytes)


@pytest.mark.timed
def test_multiply_adds_in_registers_beat_a_matrix_product():
    # numpy's product of small matrices, on one thread, cannot be faster than registers.
    a = np.ones((256, 256), np.float32)

    def against() -> float:
        with threadpool_limits(1, user_api="blas"):
            least = min(timeit.repeat(lambda: a @ a, number=1, repeat=20))
        return fma_peak(1) * least / (2 * 256**3)

    found = figures(against() for _ in range(ROUNDS))
    assert found.median > 0.9, found


def test_a_copy_is_slower_than_memory_could_ever_be():
    # No machine here has a terabyte a second, and none less than half a gigabyte.
    assert 5e8 < copy_peak(1) < 1e12


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("char_lstm", "bert_tiny")]


@pytest.mark.parametrize("name", ["lenet", *SLOW])
def test_peers_take_an_export_of_pytorch(name, tmp_path):
    timings = compare(case_of(name, 2), {each: ENGINES[each] for each in USUAL}, 1, tmp_path)
    assert [timing.skipped for timing in timings.timings] == ["", "", ""]


def test_torch_compile_says_that_it_has_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"needs a C\+\+ compiler"):
        making.compiled_engine(case_of("digits", 2), tmp_path)


def test_names_on_the_command_line(capsys):
    parse = command_line._parser().parse_args
    chosen = parse(["--engines", "pytorch", "--models", "digits,zoo/resnet50", "--threads", "1,2"])
    assert list(chosen.engines) == ["odtc", "PyTorch"]
    assert (chosen.models, chosen.threads) == (["digits", "zoo/resnet50"], [1, 2])
    assert parse([]).models == list(NETWORKS)
    assert set(NETWORKS) < set(names())
    assert list(parse(["--engines", "all"]).engines) == list(ENGINES)
    with pytest.raises(SystemExit):
        parse(["--engines", "jax"])
    assert "no engine 'jax'; there are odtc, PyTorch" in capsys.readouterr().err


def test_spread_is_median_and_quartiles():
    assert spread([4.0, 1.0, 2.0, 3.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread(0.003, 0.002, 0.004).text(scale=1e3, digits=1) == "3.0 (2.0 to 4.0)"


def test_a_machine_is_told_by_its_kind_of_core(monkeypatch):
    from tvm.target import codegen

    # Clouds name CPUs of several generations alike.
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "znver9")
    assert cpu_text({**machine(), "cpu": "AMD EPYC"}) == "AMD EPYC (znver9)"
    monkeypatch.delattr(codegen, "llvm_get_system_cpu")
    assert cpu_text({**machine(), "cpu": "AMD EPYC"}) == "AMD EPYC"


def test_versions_and_load_are_said():
    assert versions()["apache-tvm"].startswith("0.27.0")
    assert 0.0 <= busy_share(0.1) <= 1.0
