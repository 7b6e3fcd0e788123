"""What became of a state dict in a file: by value and by name, and with the right exit code."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy
import torch
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode, ModelError, UsageError
from odtc.frontend.weights.matching import Fate

RNG = np.random.default_rng(0)
A, B, C = (RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 4), (4,)))


def file_of(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    """`y = x W1 W2 ... + b1 + b2 ...`, of the matrices and rows that are given."""
    nodes, last = [], "x"
    for number, (name, value) in enumerate(tensors.items()):
        op_type, out = ("MatMul" if value.ndim == 2 else "Add"), f"h{number}"
        nodes.append(helper.make_node("Cast", [name], [f"c{number}"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node(op_type, [last, f"c{number}"], [out]))
        last = out
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    onnx.save(helper.make_model(graph, ir_version=8), path)
    return path


# What the file has, what the state dict has, and what became of that.
CASES = {
    "equal": ({"a": A, "c": C}, {"a": A, "c": C}, {"a": Fate.EQUAL, "c": Fate.EQUAL}),
    "renamed": ({"w": A}, {"a": A}, {"a": Fate.RENAMED}),
    "transposed": ({"w": np.ascontiguousarray(A.T)}, {"a": A}, {"a": Fate.RENAMED}),
    "other type": ({"a": A.astype(np.float16)}, {"a": A}, {"a": Fate.OTHER_TYPE}),
    "renamed in another type": ({"w": A.astype(np.float16)}, {"a": A}, {"a": Fate.RENAMED}),
    "merged": ({"a": A}, {"a": A, "b": A.copy()}, {"a": Fate.EQUAL, "b": Fate.MERGED}),
    "merged and renamed": (
        {"w": A},
        {"a": A, "b": A.copy()},
        {"a": Fate.RENAMED, "b": Fate.MERGED},
    ),
    "different": ({"a": A}, {"a": B}, {"a": Fate.DIFFERENT}),
    "of another size": ({"c": C}, {"c": A}, {"c": Fate.DIFFERENT}),
    "of another shape": ({"c": C}, {"c": C.reshape(2, 2)}, {"c": Fate.RESHAPED}),
    "missing": ({"a": A}, {"a": A, "b": B}, {"a": Fate.EQUAL, "b": Fate.MISSING}),
    "extra": ({"a": A, "b": B}, {"a": A}, {"a": Fate.EQUAL, "b": Fate.EXTRA}),
}
FINE = {"equal", "renamed", "transposed", "other type", "renamed in another type", "extra"}


@pytest.mark.parametrize("case", CASES)
def test_fates(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held, state, expected = CASES[case]
    model = file_of(tmp_path / "m.onnx", held)
    found = odtc.match_weights(model, state)
    assert {match.name: match.fate for match in found} == expected
    weights = tmp_path / "w.safetensors"
    safetensors.numpy.save_file(state, weights)
    code = main(["check", str(model), "--against", str(weights), "--all"])
    assert code == (ExitCode.OK if case in FINE or case == "of another shape" else ExitCode.PARITY)
    printed = capsys.readouterr().out
    assert all(fate.value in printed for fate in expected.values())


def test_ties_of_a_module_are_known_from_its_file(tmp_path: Path) -> None:
    tied = torch.from_numpy(A.copy())
    torch.save({"state_dict": {"a": tied, "b": tied, "n": torch.tensor(3)}}, tmp_path / "w.pt")
    one = file_of(tmp_path / "one.onnx", {"a": A})
    fates = [match.fate for match in odtc.match_weights(one, tmp_path / "w.pt")]
    assert fates == [Fate.EQUAL, Fate.TIED]
    two = file_of(tmp_path / "two.onnx", {"a": A, "b": A.copy()})
    (_, torn) = odtc.match_weights(two, tmp_path / "w.pt")
    assert (torn.fate, torn.detail) == (Fate.TORN, "one tensor with a in the module")


def test_a_half_state_dict_of_pytorch(tmp_path: Path) -> None:
    state = {"a": torch.from_numpy(A).bfloat16()}
    torch.save(state, tmp_path / "w.pt")
    rounded = state["a"].float().numpy()
    (match,) = odtc.match_weights(file_of(tmp_path / "m.onnx", {"a": rounded}), tmp_path / "w.pt")
    assert match.fate is Fate.EQUAL


class Gadget:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


def test_nothing_of_a_pickled_file_is_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Gadget()}, "w.pt")
    with pytest.raises(ModelError, match="weights_only"):
        odtc.match_weights(file_of(tmp_path / "m.onnx", {"a": A}), "w.pt")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("absent.pt", None, UsageError),
        ("weights.npz", b"", UsageError),
        ("damaged.safetensors", b"\xff" * 64, ModelError),
        ("damaged.pt", b"nothing", ModelError),
    ],
)
def test_files_that_are_no_state_dicts(name, content, kind, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind) as failure:
        odtc.match_weights(file_of(tmp_path / "m.onnx", {"a": A}), tmp_path / name)
    assert name in str(failure.value)


def test_a_checkpoint_without_tensors(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="holds no state dict"):
        odtc.match_weights(file_of(tmp_path / "m.onnx", {"a": A}), tmp_path / "w.pt")
