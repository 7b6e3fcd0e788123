"""Weights that stay in the files of their model: the same steps, and no other bytes."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.cli.main import main
from odtc.core.artifact.beside import beside_of, files_beside
from odtc.core.errors import ArtifactError, UnsupportedError
from odtc.runtime_rpc.engines import choose
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import NativeError
from tests.numeric.training import test_half_base as half
from tests.numeric.training import test_quantised_base as codes

RATE = 0.3


def external(path: Path, alignment: int = 64) -> Path:
    """The model with its tensors in `weights/m.bin`, each from a multiple of some bytes on."""
    model, folder = onnx.load(path), path.parent / "weights"
    folder.mkdir(exist_ok=True)
    with (folder / "m.bin").open("wb") as file:
        file.write(b"\1" * 7)
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            if len(data) < 1024:
                continue
            file.write(b"\0" * (-file.tell() % alignment))
            place = {"location": "weights/m.bin", "offset": file.tell(), "length": len(data)}
            file.write(data)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())
    return path


def halves(dtype: str) -> Callable[[Path], Path]:
    return lambda path: external(half.written(path, dtype, 2, dtype))


def of_codes(base: str) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        codes.model_with(codes.BASES[base], 2, path)
        return external(path)

    return make


@dataclass(frozen=True)
class Form:
    """A base as a file holds it.

    Attributes:
        make: writes the model.
        lora: the targets of adapters.
        beside: weights that stay there.
    """

    make: Callable[[Path], Path]
    lora: str
    beside: tuple[str, ...]


HALVES, CODES = ("k", "table", "v"), ("down", "table", "up")
FORMS = {
    "float32": Form(halves("float32"), "k|v", HALVES),
    "float16": Form(halves("float16"), "k|v", HALVES),
    "bfloat16": Form(halves("bfloat16"), "k|v", HALVES),
    "int8": Form(of_codes("int8"), "up|down", CODES),
    "uint4": Form(of_codes("uint4, blocks"), "up|down", CODES),
}


def compiled(form: Form, folder: Path, *, weights_beside: bool = False) -> odtc.Artifact:
    path = form.make(folder / "m.onnx")
    lora = odtc.LoRA(rank=2, targets=form.lora)
    return odtc.compile(path, loss="mse", lora=lora, train=[], weights_beside=weights_beside)


def steps(trainer: odtc.Trainer) -> tuple[list[float], np.ndarray]:
    """Losses of three steps, and what is evaluated behind them."""
    rng = np.random.default_rng(1)
    (ids,), (scores,) = trainer.manifest.inputs, trainer.manifest.labels
    x = rng.integers(0, half.VOCABULARY, ids.shape)
    y = rng.standard_normal(scores.spec.shape).astype(np.float32)
    return [trainer.step(x, y, lr=RATE) for _ in range(3)], trainer.evaluate(x)


def same(one: tuple[list[float], np.ndarray], other: tuple[list[float], np.ndarray]) -> None:
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("name", FORMS)
def test_steps_have_the_bits_of_an_artifact_that_holds_all(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMS[name]
    whole = compiled(form, tmp_path)
    artifact = compiled(form, tmp_path, weights_beside=True)
    artifact.save(tmp_path / "m.odtc")
    whole.save(tmp_path / "whole.odtc")
    assert {each.name for each in beside_of(artifact._bundle)} >= {*form.beside}
    size = sum(files_beside(artifact._bundle).values())
    less = os.path.getsize(tmp_path / "whole.odtc") - os.path.getsize(tmp_path / "m.odtc")
    assert abs(less - size) < 4096
    data = (tmp_path / "weights/m.bin").read_bytes()
    for each in beside_of(artifact._bundle):
        part = data[each.offset : each.offset + 64]
        with zipfile.ZipFile(tmp_path / "m.odtc") as file:
            assert not any(part in file.read(member) for member in file.namelist())
    loaded = odtc.load(tmp_path / "m.odtc")
    trainer = loaded.trainer(threads=1)
    assert isinstance(trainer._engine, NativeEngine)
    wanted = steps(whole.trainer(threads=1))
    same(steps(trainer), wanted)
    trainer.export_onnx(tmp_path / "out.onnx", verify=False, merge=False)
    monkeypatch.setattr(choose, "_NEEDS_TVM", (lambda *_: "of this test",))
    by_tvm = loaded.trainer(threads=1)
    assert isinstance(by_tvm._engine, VirtualMachine)
    same(steps(by_tvm), wanted)


def test_what_is_trained_starts_there_too(tmp_path: Path) -> None:
    path = external(half.written(tmp_path / "m.onnx", "float32", 2, "float32"))
    found, artifact = [], None
    for beside in (False, True):
        update = odtc.Update(odtc.SGD(), ema=0.9)
        artifact = odtc.compile(path, loss="mse", weights_beside=beside, optimizer=update)
        trainer = artifact.trainer(threads=1)
        found.append((*steps(trainer), trainer.parameters(ema=True)))
    same(found[0][:2], found[1][:2])
    for name, value in found[0][2].items():
        np.testing.assert_array_equal(value, found[1][2][name])
    assert artifact
    # The file is as it was: what was trained was a copy.
    same(steps(artifact.trainer(threads=1)), found[0][:2])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact and the weights beside it."""
    folder = tmp_path_factory.mktemp("made")
    compiled(FORMS["float32"], folder, weights_beside=True).save(folder / "m.odtc")
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_file_that_is_missing_is_named(copied: Path) -> None:
    shutil.move(copied / "weights", copied / "elsewhere")
    artifact = odtc.load(copied / "m.odtc")
    with pytest.raises(
        ArtifactError, match=r"weights/m\.bin, which cannot be read: No such"
    ) as error:
        artifact.trainer()
    assert "--weights-folder" in str(error.value)
    assert str(copied / "weights/m.bin") in str(error.value)
    shutil.move(copied / "elsewhere", copied / "other/weights")
    steps(odtc.load(copied / "m.odtc", weights=copied / "other").trainer(threads=1))


@pytest.mark.parametrize("change", ["byte", "end"])
def test_a_file_that_has_changed_is_refused(change: str, copied: Path) -> None:
    artifact = odtc.load(copied / "m.odtc")
    artifact.trainer(threads=1).close()
    file = copied / "weights/m.bin"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data if change == "byte" else data[:-1])
    with pytest.raises(ArtifactError, match=r"has another weight '.*' than when the step was"):
        artifact.trainer(threads=1)
    data[-5] ^= 1
    file.write_bytes(data)
    # What no weight of the step is, may change.
    data[3] ^= 1
    file.write_bytes(data)
    artifact.trainer(threads=1).close()


def unzipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "m.odtc") as file:
        file.extractall(folder / "members")
    return folder / "members"


def test_the_native_runtime_checks_by_itself(copied: Path) -> None:
    members = unzipped(copied)
    with pytest.raises(NativeError, match=r"members/weights/m\.bin cannot be read: No such file"):
        NativeTrainer(members, 1)
    NativeTrainer(members, 1, beside=copied).close()
    shutil.copytree(copied / "weights", members / "weights")
    NativeTrainer(members, 1).close()
    data = bytearray((members / "weights/m.bin").read_bytes())
    (members / "weights/m.bin").write_bytes(data[:-1])
    with pytest.raises(NativeError, match="ends before it should"):
        NativeTrainer(members, 1)
    data[-5] ^= 1
    (members / "weights/m.bin").write_bytes(data)
    with pytest.raises(NativeError, match=r"has another weight .* than when the step was"):
        NativeTrainer(members, 1)
    NativeTrainer(members, 1, check_weights=False).close()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no hash", "cannot be read"),
        ("0" * 64 + " 12", "cannot be read"),
        ("0" * 64 + " x m.bin", "cannot be read"),
        ("0" * 64 + " 99999999999999999999 m.bin", "cannot be read"),
        ("0" * 64 + " 900000000000000000 weights/m.bin", "ends before it should"),
        ("0" * 64 + " 0 " + "a/" * 3000, "is too long"),
        ("0" * 64 + " 0 weights", "a folder"),
        ("0" * 64 + " 0 weights/../weights/m.bin", "cannot be read"),
        ("0" * 64 + " 0 ..", "leads out of its folder"),
        ("0" * 64 + " 0 weights/..", "leads out of its folder"),
        ("0" * 64 + " 0 /etc/passwd", "cannot be read"),
        ("0" * 64 + " 0 ..weights/m..bin", "No such file"),
    ],
)
def test_places_that_are_none_are_refused(place: str, said: str, copied: Path) -> None:
    members = unzipped(copied)
    put_place(members / "parameters.safetensors", place)
    with pytest.raises(NativeError, match=said):
        NativeTrainer(members, 1, check_weights=False, beside=copied)


def put_place(weights: Path, place: str) -> None:
    """Lets the file say that its first weight beside it is there."""
    raw = weights.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    (first, *_) = [key for key in header["__metadata__"] if key.startswith("beside:")]
    header["__metadata__"][first] = place
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    weights.write_bytes(len(text).to_bytes(8, "little") + text + body)


NO_PLACE = "which is no place in a folder"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no hash", NO_PLACE),
        ("0" * 64 + " 12", NO_PLACE),
        ("0" * 64 + " -1 weights/m.bin", NO_PLACE),
        ("0" * 64 + " 0 ../m.bin", NO_PLACE),
        ("0" * 64 + " 0 /etc/passwd", NO_PLACE),
        ("0" * 64 + " 900000000000000000 weights/m.bin", "has another weight"),
        ("0" * 64 + " 0 weights", "cannot be read: "),
        ("0" * 64 + " 0 weights/pipe", "cannot be read: it is not a file"),
    ],
)
def test_such_places_are_no_fault_of_python(place: str, said: str, copied: Path) -> None:
    os.mkfifo(copied / "weights/pipe")
    artifact = odtc.load(copied / "m.odtc")
    put_place(artifact._bundle.parameters, place)
    with pytest.raises(ArtifactError, match=said):
        artifact.trainer(threads=1)


def test_links_that_lead_out_of_the_folder_are_refused(copied: Path, tmp_path: Path) -> None:
    members, elsewhere = unzipped(copied), tmp_path / "elsewhere"
    said = r"weights/m\.bin leads out of its folder"
    shutil.move(copied / "weights", elsewhere)
    for link in ("weights", "weights/m.bin"):
        (copied / link).parent.mkdir(exist_ok=True)
        (copied / link).symlink_to(tmp_path / "elsewhere" / link.partition("/")[2])
        alone = tmp_path / f"alone-{link.partition('/')[2]}"
        alone.mkdir()
        shutil.move(copied / "weights", alone / "weights")
        with pytest.raises(NativeError, match=said):
            NativeTrainer(members, 1, beside=alone)
        with pytest.raises(ArtifactError, match=r"weights/m\.bin, which is a link that leads out"):
            odtc.load(copied / "m.odtc", weights=alone).trainer(threads=1)
    # Within the folder they may lead to where they like, and the folder may be one itself.
    shutil.move(elsewhere, copied / "within")
    (copied / "weights").symlink_to("within")
    (tmp_path / "linked").symlink_to(copied)
    NativeTrainer(members, 1, beside=tmp_path / "linked").close()
    odtc.load(copied / "m.odtc", weights=tmp_path / "linked").trainer(threads=1).close()


def test_a_model_that_is_a_link_is_refused(tmp_path: Path) -> None:
    own, lora = tmp_path / "own", odtc.LoRA(rank=2, targets="k|v")
    own.mkdir()
    path = half.written(tmp_path / "m.onnx", "float32", 2, "float32")
    (own / "m.onnx").symlink_to(path)
    with pytest.raises(UnsupportedError, match=r"m\.onnx is a link that leads out of its folder"):
        odtc.compile(own / "m.onnx", loss="mse", lora=lora, train=[], weights_beside=True)


def test_the_weights_are_not_in_memory_twice(copied: Path) -> None:
    """Frozen ones that begin at a multiple of 64 bytes are read where they lie."""
    trainer = odtc.load(copied / "m.odtc").trainer(threads=1)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert sum(str(copied / "weights/m.bin") in line for line in maps) == 3
    trainer.close()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert str(copied) not in maps.read()


def test_weights_that_are_not_aligned_are_copied_and_it_is_said(tmp_path: Path) -> None:
    path = external(half.written(tmp_path / "m.onnx", "float32", 2, "float32"), alignment=4)
    lora = odtc.LoRA(rank=2, targets="k|v")
    whole = odtc.compile(path, loss="mse", lora=lora, train=[])
    artifact = odtc.compile(path, loss="mse", lora=lora, train=[], weights_beside=True)
    (note,) = [each for each in artifact.manifest.notes if "weights/m.bin" in each]
    assert note.startswith("3 weights, 41,472 bytes, stay in weights/m.bin, which a trainer needs")
    assert "begin there at no multiple of 64 bytes, and are copied into memory" in note
    same(steps(artifact.trainer(threads=1)), steps(whole.trainer(threads=1)))


def test_what_stays_in_the_artifact_is_told_and_why(tmp_path: Path) -> None:
    path = external(half.written(tmp_path / "m.onnx", "float32", 2, "float32"))
    model = onnx.load(path)
    (table,) = [each for each in model.graph.initializer if each.name == "table"]
    others = [each for each in model.graph.initializer if each.name != "table"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(others)
    inside = external(save(model, tmp_path / "m.onnx"))
    model = onnx.load(inside, load_external_data=False)
    model.graph.initializer.append(table)
    save(model, inside)
    lora = odtc.LoRA(rank=2, targets="k|v")
    artifact = odtc.compile(inside, loss="mse", lora=lora, train=[], weights_beside=True)
    (note,) = [each for each in artifact.manifest.notes if "weights/m.bin" in each]
    assert note.startswith("2 weights, 18,432 bytes, stay in weights/m.bin")
    assert note.endswith(
        "23,040 bytes are in the artifact: table, in the model's file as another "
        "type, or within a file of less than 16 MiB"
    )


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_model_without_such_weights_is_refused(quantize: str | None, tmp_path: Path) -> None:
    path = half.written(tmp_path / "m.onnx", "float32", 2, "float32")
    lora = odtc.LoRA(rank=2, targets="k|v")
    wanted = "rounded by --quantize" if quantize else "within a file of less than 16 MiB"
    with pytest.raises(UnsupportedError, match=f"no weight of the step lies in .*{wanted}"):
        odtc.compile(path, loss="mse", lora=lora, train=[], quantize=quantize, weights_beside=True)


def test_the_command_line_takes_a_folder(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(made / "m.odtc", tmp_path)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, half.VOCABULARY, (4, half.TOKENS))
    y = rng.standard_normal((4, half.TOKENS, half.VOCABULARY)).astype(np.float32)
    np.savez(tmp_path / "train.npz", ids=ids, y=y)
    words = ["train", str(tmp_path / "m.odtc"), "--data", str(tmp_path / "train.npz")]
    assert main([*words, "--epochs", "1", "--lr", "0.1"]) == 8
    assert (
        "weights of the step are in weights/m.bin, which cannot be read" in capsys.readouterr().err
    )
    assert main([*words, "--epochs", "1", "--lr", "0.1", "--weights-folder", str(made)]) == 0
    assert main(["inspect", str(tmp_path / "m.odtc")]) == 0
    said = capsys.readouterr().out
    assert "stay in weights/m.bin" in said
    assert f"weights/m.bin in {tmp_path}, 41,472 bytes of it: weights of the step are in" in said
    words = ["inspect", str(tmp_path / "m.odtc"), "--weights-folder", str(made)]
    assert main(words) == 0
    assert f"weights/m.bin in {made}, 41,472 bytes of it: as compiled" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["weights_beside"]
    wanted = {"name": "weights/m.bin", "bytes": 41472, "folder": str(made), "fault": ""}
    assert file == wanted
    words = ["sweep", str(tmp_path / "m.odtc"), "--threads", "1", "--cores", "all", "--steps", "1"]
    words += ["--rounds", "1", "-o", str(tmp_path / "rows.jsonl")]
    assert main([*words, "--weights-folder", str(made)]) == 0
    assert "ms" in capsys.readouterr().out
