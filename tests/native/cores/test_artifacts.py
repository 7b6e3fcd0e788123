"""Artifacts with kernels for several CPUs: what is in them, and what is said of it."""

import hashlib
import json
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import odtc
from odtc.artifact import Artifact
from odtc.backends.cpus import lacking_features
from odtc.backends.targets import parse_target
from odtc.cli.console import readable_bytes
from odtc.cli.main import main
from odtc.core.artifact.bundle import BOUND, identity_in_program
from odtc.core.artifact.identity import identity_of
from odtc.runtime_rpc.engines.native import NativeEngine
from tests.native.parity import tvm_trainer
from tests.needs import lacks, needs_x86
from tests.numeric.mlp import batches, mlp_artifact

TARGET = "host-cpu{mcpu=x86-64-v3+x86-64-v2,threads=2}"

pytestmark = needs_x86("kernels for x86-64")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("both"), odtc.SGD(), target=TARGET)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    target = "host-cpu{mcpu=x86-64-v3,threads=2}"
    return mlp_artifact(tmp_path_factory.mktemp("alone"), odtc.SGD(), target=target)


def test_an_artifact_for_one_cpu_is_what_it_was(alone: Artifact, both: Artifact) -> None:
    """Its identity is a hash of what its manifest says, which older versions wrote, and read."""
    bundle = alone._bundle
    said = json.loads(bundle.manifest.to_json())
    assert "kernels" not in said
    assert "kernels" in json.loads(both.manifest.to_json())
    said["files"] = {name: said["files"][name] for name in BOUND}
    identity = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    assert identity_of(bundle.manifest, BOUND) == identity
    assert bundle.program is not None
    assert identity_in_program(bundle.program) == identity


def test_both_engines_run_the_first_kernels_here(both: Artifact, alone: Artifact) -> None:
    """Which are those of an artifact for that CPU alone, to the bit."""
    if lacking_features(parse_target(TARGET).cpu):
        lacks("this machine is older than x86-64-v3")
    trainers = [both.trainer(threads=2), tvm_trainer(both, threads=2), alone.trainer(threads=2)]
    assert isinstance(trainers[0]._engine, NativeEngine)
    assert trainers[0]._engine._native.fact("core") == "x86-64-v3"
    for x, y in batches(3):
        first, *others = (trainer.step(x, y, lr=0.1) for trainer in trainers)
        assert others == [first, first]


def test_commands_say_what_each_set_takes(
    both: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    both.save(path := tmp_path / "mlp.odtc")
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    sizes = both.manifest.kernels
    assert [*sizes] == ["x86-64-v3", "x86-64-v2"]
    lines = [f"for {core}, {readable_bytes(n)} ({n:,} bytes)" for core, n in sizes.items()]
    assert [line.split(maxsplit=1)[1] for line in shown if line.startswith("kernels")] == lines
    export = ["export-app", str(path), "--platform", "linux", "-o"]
    assert main([*export, str(tmp_path / "app")]) == 0
    assert capsys.readouterr().err.splitlines() == [f"kernels {line}" for line in lines]
    assert main([*export, str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == sizes
    # Together they are about what the library is: the rest is what TVM runs a step by.
    assert 0.5 < sum(sizes.values()) / both._bundle.library.stat().st_size < 1


def test_each_set_has_helpers_of_its_own(both: Artifact) -> None:
    """The linker takes one of several weak functions: not for kernels of another CPU."""
    with both._bundle.library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        symbols = {each.name: each["st_value"] for each in table.iter_symbols() if each["st_value"]}
        weak = {
            each.name: each["st_value"]
            for each in table.iter_symbols()
            if each["st_info"]["bind"] == "STB_WEAK" and each["st_info"]["type"] == "STT_FUNC"
        }
    kernels = {name for name in symbols if name.endswith(".1")}
    assert kernels
    for name in kernels:
        assert symbols[name] != symbols[name.removesuffix(".1")]
    first = {name[:-1] for name in weak if not name.endswith("B")}
    assert "__truncsfhf" in first
    assert {name[:-1] for name in weak if name.endswith("B")} == first
    assert len(set(weak.values())) == len(weak)
