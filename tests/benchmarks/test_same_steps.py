"""Whether commits compile the same steps: by their code, whatever the kernels are called."""
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from pathlib import Path

import pytest
from tvm.script import tirx as T  # noqa: N812

from benchmarks import same_steps
from benchmarks.same_steps import code_of, step_of
from odtc.backends.objects import kernel_objects
from odtc.backends.targets import parse_target
from odtc.driver.sealed import description
from tests.caches import without_steps
from tests.mlp import mlp


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache that the tool sets is that of the test afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", without_steps(tmp_path / "cache"))


def step(width: int = 8, **options: str) -> bytes:
    return step_of(mlp(8, width, 3), "host-cpu{threads=1}", {"batch": 4, **options})


def test_names_of_kernels_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = step()
    made = kernel_objects.pass_context
    # Keys are made of it, and order kernels in a library.
    monkeypatch.setattr(kernel_objects, "pass_context", lambda: f"other {made()}")
    assert step() == first


def test_the_version_that_compiled_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = step()
    monkeypatch.setattr(description, "VERSION", "9.9.9")
    assert step() == first


def test_another_program_is_another_step() -> None:
    assert len({step(), step(16), step(optimizer="adam")}) == 3


def test_kernels_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = step()
    monkeypatch.setattr(same_steps, "code_of", lambda _: b"")
    assert step() != first


def test_without_kernels_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_steps, "_kernels", lambda: iter(()))
    with pytest.raises(SystemExit, match="no kernel was kept"):
        step()


def scaled(by: float, name: str) -> bytes:
    """The object file of a kernel."""

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in range(64):
            y[i] = T.exp(x[i]) * T.float32(by)

    return kernel_objects._compiled(kernel, name, parse_target("host-cpu{threads=1}").to_tvm())


def test_other_constants_are_other_code() -> None:
    first, second = "k" + "0" * 32, "k" + "f" * 32
    assert scaled(2.0, first) != scaled(2.0, second)
    assert code_of(scaled(2.0, first)) == code_of(scaled(2.0, second))
    assert code_of(scaled(2.0, first)) != code_of(scaled(3.0, first))
