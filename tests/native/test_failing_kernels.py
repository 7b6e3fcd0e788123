"""A kernel that fails, in whatever thread, and a step that ends between two micro-batches."""

from pathlib import Path

import pytest

import odtc
from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.interface import Code
from tests.native.parity import TARGET, unpacked
from tests.native.sanitized import ADDRESS, build, run
from tests.needs import needs
from tests.numeric.mlp import mlp_artifact

pytestmark = needs(cc_command(), reason="no C compiler")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program in C, and the members of an artifact."""
    folder = tmp_path_factory.mktemp("failures")
    artifact = mlp_artifact(folder, odtc.SGD(momentum=0.9), target=TARGET, micro_batches=2)
    return build("failures", folder, ADDRESS), unpacked(artifact, folder / "artifact")


@pytest.mark.parametrize(
    ("what", "code", "text"),
    [
        ("fails", Code.KERNEL, "failed in call"),
        ("fails-in-a-thread", Code.KERNEL, "failed in call"),
        ("cancels", Code.CANCELLED, "was cancelled before call 1 of"),
    ],
)
def test_a_step_that_ends_half_way(
    what: str, code: Code, text: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    program, members = made
    said = run(program, members, [], [str(tmp_path / "checkpoint"), what])
    saved, failed, torn, loaded, again = said.splitlines()
    assert failed.startswith(f"{int(code)} ")
    assert text in failed
    # Until a checkpoint is loaded: some weights are updated, or gradients are of one part.
    assert torn.startswith(f"{int(Code.TORN)} the weights are torn")
    assert [saved, loaded, again] == ["0 "] * 3
