"""Programs of several lengths: what is in them, and how the native runtime takes steps of each."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.core.artifact.bundle import PROGRAM
from odtc.core.process.cxx import cc_command, cxx_command
from odtc.core.specs import FED_ROLES
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import FOLDER, compile_runtime, compiler_of_c
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import unpacked
from tests.native.reader import WITH_LENGTHS, read
from tests.native.sanitized import CHECKPOINT, PROGRAMS, fuzzed
from tests.needs import needs
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    decoder,
    ragged,
    save,
)

MUTATIONS = 400
MODULE = decoder(is_causal=True, has_mask=False)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    path = save(MODULE, tmp_path_factory.mktemp("lengths") / "decoder.onnx")
    return odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS, eval_batch=1)


@pytest.fixture(scope="module")
def members(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(artifact, tmp_path_factory.mktemp("members") / "artifact")


def test_the_program_has_each_length(artifact: Artifact) -> None:
    program = read((artifact._bundle.root / PROGRAM).read_bytes())
    manifests = artifact.manifest.lengths
    assert program.header[1] == WITH_LENGTHS
    assert [length for length, *_ in program.lengths] == [12, 8, 4]
    count = len(artifact.manifest.arguments)
    assert len(program.arguments) == count * len(LENGTHS)
    for number, (length, first, functions) in enumerate(program.lengths):
        own = program.functions[first : first + functions]
        assert [each["name"] for each in own] == ["train_step", "evaluate", "evaluate_of_1"]
        assert own[0]["arena"] == manifests[length].plans[0].arena_bytes
        items = manifests[length].arguments
        found = program.arguments[number * count :][:count]
        assert [each["shape"] for each in found] == [item.spec.shape for item in items]
        assert [each["name"] for each in found] == [item.spec.name for item in items]
    (note,) = (each for each in artifact.manifest.notes if each.startswith("3 lengths"))
    # The library has kernels that are alike once: updates do not go by the length.
    (found,) = re.findall(r"of their (\d+) kernels (\d+) differ", note)
    kernels, differing = map(int, found)
    assert 0 < differing < kernels


def test_what_lengths_share_is_there_once(members: Path) -> None:
    with NativeTrainer(members, 1) as native:
        before = {k: (a.ctypes.data, a.nbytes) for k, a in native.tensors.items()}
        native.set_length(4)
        assert {k: (a.ctypes.data, a.nbytes) for k, a in native.tensors.items()} == before


def test_steps_of_each_length_are_those_of_the_trainer(artifact: Artifact, members: Path) -> None:
    with artifact.trainer() as trainer, NativeTrainer(members, 1) as native:
        assert native.lengths == (12, 8, 4)
        longest, held = native.arena_bytes, 0
        for seed, length in enumerate((4, 12, 8, 4, 12)):
            inputs, labels = ragged(MODULE, (length, 1), length, seed)
            native.set_length(length)
            plan = artifact.manifest.lengths[length].plans[0]
            assert native.arena_bytes == plan.arena_bytes <= longest
            fed = {item: n for n, item in enumerate(artifact.manifest.lengths[length].arguments)}
            for item, number in fed.items():
                if item.role in FED_ROLES:
                    value = inputs.get(item.spec.name, labels)
                    native.part(number, item.spec.shape, item.spec.dtype)[...] = value
            assert native.step(0.1) == trainer.step(inputs, labels, lr=0.1)
            # One arena, as large as the largest so far.
            held = max(held, plan.arena_bytes)
            assert native.held_bytes >= held
            np.testing.assert_array_equal(native.evaluate(), trainer.evaluate(inputs))
            held = plan.arena_bytes


@needs(cc_command(), cxx_command(), reason="no C compiler++")
def test_cpp_takes_the_same_steps(artifact: Artifact, members: Path, tmp_path: Path) -> None:
    compile_runtime(compiler_of_c(), library := tmp_path / "libodtc.so")
    command = [*cxx_command(), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{FOLDER}", str(PROGRAMS / "lengths.cc"), str(library)]
    program = tmp_path / "lengths"
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}", "-o", str(program)], check=True)
    taken = (8, 4, 12)
    command = [str(program), str(members), *map(str, taken)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, refused = done.stdout.splitlines()
    assert lines[:3] == ["12", "8", "4"]
    assert refused == f"{Code.USAGE:d} the step is not compiled for a length of 5"
    with artifact.trainer() as trainer:
        for value, (length, line) in enumerate(zip(taken, lines[3:], strict=True), 2):
            count, loss = line.split()
            assert int(count) == BATCH * length
            ids = np.full((BATCH, length), value)
            assert float.fromhex(loss) == trainer.step(ids, ids + 1, lr=0.1)


def test_a_length_that_is_not_compiled(members: Path) -> None:
    with NativeTrainer(members, 1) as native:
        for length in (0, 5, 2**64 - 1):
            with pytest.raises(NativeError, match=f"not compiled for a length of {length}") as it:
                native.set_length(length)
            assert it.value.code is Code.USAGE
        assert native.steps == 0


@needs(cc_command(), reason="no C compiler")
def test_edited_programs_are_refused_or_read(
    artifact: Artifact, members: Path, tmp_path: Path
) -> None:
    with artifact.trainer() as trainer:
        trainer.save_checkpoint(members / CHECKPOINT)
    found = fuzzed(members, tmp_path, MUTATIONS)
    assert 0 < found[0] < MUTATIONS
