"""Profiles of steps on this machine's GPU devices, by their own timers."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from tests.gpu.on_device import KINDS
from tests.runtime_rpc.own_server import NATIVE, serving
from tests.timed import ROUNDS, figures


@cache
def digits(kind: str) -> odtc.Artifact:
    """The digits model, compiled once for each kind of device."""
    with TemporaryDirectory() as folder:
        onnx.save(digits_model(), path := Path(folder, "m.onnx"))
        return odtc.compile(path, f"host-{kind}", batch=64)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "sessions", server=NATIVE) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernels_time_is_that_of_the_device(kind: str) -> None:
    artifact = digits(kind)
    trainer, (x, y, *_) = artifact.trainer(), digits_data()
    plain = artifact.trainer()
    losses = [trainer.step(x[:64], y[:64], lr=0.1)]
    with trainer.profile() as profiling:
        losses += trainer.train([(x[:64], y[:64])] * 3, lr=0.1)
    profile = profiling.profile
    assert [each.kernel for each in profile.operators] == list(artifact.memory.plan.calls)
    assert len(profile.steps) == 3
    assert losses == [plain.step(x[:64], y[:64], lr=0.1) for _ in range(4)]
    # The host's cores have no part in what the GPU does.
    assert not {"utilization", "frequency"} & profile.felt(range(len(profile.operators))).keys()
    # The device computes one after the other, by a clock that agrees with the host's.
    for (run,) in profile.steps:
        times = [time for call in run.calls for time in (call.begin, call.end)]
        assert times == sorted(times)
        assert run.begin - 1e-3 < times[0] < times[-1] < profile.ended + 1e-3
    uploads = [move for move in profile.moves if move.kind == "upload"]
    # A step is fed at once.
    assert len(uploads) == 3
    assert all(0 <= move.seconds < 1 for move in profile.moves)


def parts_of(artifact: odtc.Artifact, url: str | None, waits: bool) -> tuple[float, float]:
    """Of the time of steps: that of kernels, and that of what is downloaded beside it."""
    trainer, (x, y, *_) = artifact.trainer(url), digits_data()
    trainer.step(x[:64], y[:64], lr=0.1)
    other = artifact.trainer()
    with other.profile() if waits else nullcontext(), trainer.profile() as profiling:
        for each in [trainer] * 3 + [other] * waits:
            each.step(x[:64], y[:64], lr=0.1)
    trainer.session.close()
    profile = profiling.profile
    return profile.coverage, profile.moved_seconds("download") / median(profile.step_seconds)


@pytest.mark.timed
@pytest.mark.parametrize("way", ["here", "there", "while another one waits"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_take_the_time_and_a_download_waits_for_none(kind: str, way: str, url: str) -> None:
    """A download is the loss alone."""
    artifact = digits(kind)
    there = url if way == "there" else None
    found = [parts_of(artifact, there, way.startswith("while")) for _ in range(ROUNDS)]
    covered, downloads = map(figures, zip(*found, strict=True))
    assert covered.median > 0.5, covered
    assert downloads.median < 0.5, downloads


@pytest.mark.parametrize("kind", KINDS)
def test_behind_a_server_it_is_the_same(kind: str, url: str) -> None:
    artifact = digits(kind)
    there, here, (x, y, *_) = artifact.trainer(url), artifact.trainer(), digits_data()
    losses = [there.step(x[:64], y[:64], lr=0.1)]
    with there.profile() as profiling:
        losses += [there.step(x[:64], y[:64], lr=0.1) for _ in range(3)]
    losses += there.train([(x[:64], y[:64])] * 3, 0.1, steps_per_call=3)
    there.session.close()
    assert losses == [here.step(x[:64], y[:64], lr=0.1) for _ in range(7)]
    profile = profiling.profile
    # The link is in no time.
    for (run,) in profile.steps:
        times = [time for call in run.calls for time in (call.begin, call.end)]
        assert times == sorted(times)
        assert profile.samples.began < times[0] < times[-1] < profile.samples.ended


@pytest.mark.parametrize("kind", KINDS)
def test_profiles_at_once(kind: str) -> None:
    """Each trainer has timers of its own."""
    artifact = digits(kind)
    x, y, *_ = digits_data()
    first, second = artifact.trainer(), artifact.trainer()
    with first.profile() as outer, second.profile() as inner:
        assert second.step(x[:64], y[:64], 0.1) == first.step(x[:64], y[:64], 0.1)
    for each in (outer, inner):
        assert 0 < each.profile.coverage <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_kernels_launch(kind: str, url: str) -> None:
    """Here and behind a server, before and after steps; of each kernel of the step."""
    artifact = digits(kind)
    there, here, (x, y, *_) = artifact.trainer(url), artifact.trainer(), digits_data()
    found = here.launches()
    here.step(x[:64], y[:64], lr=0.1)
    assert here.launches() == found == there.launches()
    there.session.close()
    assert set(artifact.memory.plan.calls) <= set(found)
    for launches in found.values():
        for each in launches:
            assert math.prod(each.items) <= each.figures.get("most items", math.inf)
            assert each.figures["shared bytes"] <= 32 << 10
    products = [each for each in artifact.memory.plan.calls if "matmul" in each]
    assert products
    assert all(max(e.figures["shared bytes"] for e in found[name]) > 1000 for name in products)


def test_interfaces_agree_on_what_items_share() -> None:
    """OpenCL's is the driver's word, Vulkan's is read from the SPIR-V."""
    shared = [
        {
            each.kernel: each.figures["shared bytes"]
            for launches in digits(kind).trainer().launches().values()
            for each in launches
        }
        for kind in KINDS
    ]
    assert shared[0] == shared[1]


def test_a_cpu_launches_nothing(tmp_path: Path) -> None:
    onnx.save(digits_model(), path := tmp_path / "m.onnx")
    assert odtc.compile(path, "host-cpu", batch=8).trainer().launches() == {}
