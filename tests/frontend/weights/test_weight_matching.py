"""A state dict's tensors are matched to a file's by value and name, with the right exit code."""

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
from odtc.frontend.weights.fates import Fate

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


# Tensor of the file, tensor of the state dict, and the latter's fate.
CASES = {
    "equal": ({"a": A, "c": C}, {"a": A, "c": C}, {"a": Fate.EQUAL, "c": Fate.EQUAL}),
    "renamed": ({"w": A}, {"a": A}, {"a": Fate.RENAMED}),
    "transposed": ({"w": np.ascontiguousarray(A.T)}, {"a": A}, {"a": Fate.RENAMED}),
    "other type": ({"a": A.astype(np.float16)}, {"a": A}, {"a": Fate.OTHER_TYPE}),
    "renamed in another type": ({"w": A.astype(np.float16)}, {"a": A}, {"a": Fate.RENAMED}),
    "transposed too": (
        {"a": A, "w": np.ascontiguousarray(A.T)},
        {"a": A},
        {"a": Fate.TORN},
    ),
    "stored twice": ({"a": A, "w": A.copy()}, {"a": A}, {"a": Fate.TORN}),
    "renamed twice": ({"v": A, "w": A.copy()}, {"a": A}, {"a": Fate.TORN}),
    "alike and renamed": (
        {"v": A, "w": A.copy()},
        {"a": A, "b": A.copy()},
        {"a": Fate.RENAMED, "b": Fate.RENAMED},
    ),
    "filled alike": (
        {"a": np.zeros(4, np.float32), "w": np.zeros(4, np.float32)},
        {"a": np.zeros(4, np.float32)},
        {"a": Fate.EQUAL},
    ),
    "a step of float32 away": (
        {"a": np.nextafter(A, np.float32(9))},
        {"a": A},
        {"a": Fate.ROUNDED},
    ),
    "of a state dict in half": ({"a": A}, {"a": A.astype(np.float16)}, {"a": Fate.OTHER_TYPE}),
    "renamed, of one in half": ({"w": A}, {"a": A.astype(np.float16)}, {"a": Fate.RENAMED}),
    "a step of half away": (
        {"a": np.nextafter(A.astype(np.float16), np.float16(9))},
        {"a": A},
        {"a": Fate.ROUNDED},
    ),
    "too large for half": (
        {"a": np.where(A > 0, np.inf, A).astype(np.float16)},
        {"a": np.where(A > 0, np.float32(1e6), A.astype(np.float16))},
        {"a": Fate.DIFFERENT},
    ),
    "far from it in half": (
        {"a": (A * np.float32(1.01)).astype(np.float16)},
        {"a": A},
        {"a": Fate.DIFFERENT},
    ),
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
LOST = {"merged", "merged and renamed", "different", "of another size", "missing"}
LOST |= {"transposed too", "stored twice", "renamed twice"}
LOST |= {"too large for half", "far from it in half"}


@pytest.mark.parametrize("case", CASES)
def test_fates(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held, state, expected = CASES[case]
    model = file_of(tmp_path / "m.onnx", held)
    found = odtc.match_weights(model, state)
    assert {match.name: match.fate for match in found} == expected
    weights = tmp_path / "w.safetensors"
    safetensors.numpy.save_file(state, weights)
    code = main(["check", str(model), "--against", str(weights), "--all"])
    assert code == (ExitCode.PARITY if case in LOST else ExitCode.OK)
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
    types = "bfloat16 in the state dict, float32 in the file"
    for held, detail in ((rounded, types), (A, f"{types}, equal when rounded to bfloat16")):
        model = file_of(tmp_path / "m.onnx", {"a": held})
        (match,) = odtc.match_weights(model, tmp_path / "w.pt")
        assert (match.fate, match.detail) == (Fate.OTHER_TYPE, detail)


def test_parameters_that_need_gradients_and_halves_are_taken_as_they_are(tmp_path: Path) -> None:
    model = file_of(tmp_path / "m.onnx", {"a": A})
    tied = torch.nn.Parameter(torch.from_numpy(A.copy()))
    fates = [match.fate for match in odtc.match_weights(model, {"a": tied, "b": tied})]
    assert fates == [Fate.EQUAL, Fate.TIED]
    (match,) = odtc.match_weights(model, {"a": tied.bfloat16()})
    assert match.fate is Fate.OTHER_TYPE


class Tied(torch.nn.Module):
    """Goes through a matrix, back through its transpose, and scales what comes out."""

    def __init__(self, scale: float = 0.37) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.w = torch.nn.Parameter(torch.randn(4, 6))
        self.s = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.w.t()) @ self.w * self.s.exp()


def default_file(module: torch.nn.Module, path: Path) -> Path:
    example = (torch.randn(2, 6),)
    torch.onnx.export(module, example, path, dynamo=True, external_data=False, verbose=False)
    return path


def test_a_tie_that_the_exporter_tore_is_named(tmp_path: Path, capsys) -> None:
    """A permuted square matrix may as well be one that was left as it is: the file does not say."""

    class Permuted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x @ self.w.permute(1, 0)) @ self.w

    module = Permuted()
    model = default_file(module, tmp_path / "m.onnx")
    torch.save(module.state_dict(), tmp_path / "w.pt")
    assert main(["check", str(model), "--against", str(tmp_path / "w.pt")]) == ExitCode.PARITY
    printed = capsys.readouterr().out
    lost = "w (torn tie: one tensor of the module, two of the file: w and permute, transposed)"
    assert "torn apart, lost:" in printed
    assert lost in printed


def test_a_tie_that_the_file_shows_is_one_again(tmp_path: Path) -> None:
    module = Tied()
    model = default_file(module, tmp_path / "m.onnx")
    found = {match.name: match for match in odtc.match_weights(model, module.state_dict())}
    assert found.keys() == {"w", "s"}
    assert found["w"].fate is Fate.EQUAL


def test_what_a_file_computes_from_a_parameter_beside_it_is_lost(tmp_path: Path) -> None:
    class Summed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.w * self.w.sum()

    module = Summed()
    model = default_file(module, tmp_path / "m.onnx")
    (match,) = odtc.match_weights(model, module.state_dict())
    assert match.fate is Fate.FOLDED
    assert "computed into" in match.detail


@pytest.mark.parametrize("scale", [0.37, 1e-3, -4.2, 3.14159])
def test_a_number_that_is_restored_from_its_exponential(scale: float, tmp_path: Path) -> None:
    """Its shape is the module's, and its value equal but for the rounding of the logarithm."""
    module = Tied(scale)
    model = default_file(module, tmp_path / "m.onnx")
    found = {match.name: match for match in odtc.match_weights(model, module.state_dict())}
    assert found["s"].fate in (Fate.EQUAL, Fate.ROUNDED)
    module.s.data += 1e-4
    found = {match.name: match for match in odtc.match_weights(model, module.state_dict())}
    assert found["s"].fate is Fate.DIFFERENT


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
