"""Tensors that PyTorch's default exporter folded from a parameter are never taken for it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import odtc
from odtc.core.errors import DataError
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph

Use = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]

CHANGES: Mapping[str, Change] = {
    "exp": torch.exp,
    "flip": lambda w: w.flip(0),
    "roll": lambda w: w.roll(1, 0),
    "softmax": lambda w: torch.softmax(w, 0),
    "twice": lambda w: w * 2,
    "picked": lambda w: w[[1, 0, 2, 3, 4, 5]],
    "rounded": lambda w: w.half().float(),
    "detached": lambda w: w.detach(),
    "rolled_exp": lambda w: w.roll(1, 0).exp(),
    "summed": lambda w: w.cumsum(0),
}
LAYOUTS: Mapping[str, Change] = {
    "unsqueezed": lambda w: w[:, None, None],
    "viewed": lambda w: w.view(-1, 1, 1),
    "reshaped": lambda w: w.reshape(1, -1, 1, 1),
    "turned": lambda w: w[:, None].t()[..., None].transpose(1, 2),
}
TURNS: Mapping[str, Change] = {
    "t": lambda w: w.t(),
    "permuted": lambda w: w.permute(1, 0),
    "transposed": lambda w: w.transpose(0, 1),
}
# By name, a shape and what is done to a parameter of it and x (2, 6, 6, 6): no layout of all of it.
OTHERS: Mapping[str, tuple[tuple[int, ...], Use]] = {
    "slice": ((9,), lambda x, w: x * w[3:, None, None]),
    "part": ((2, 6), lambda x, w: x * w.unbind(0)[1][:, None, None]),
    "repeated": ((1,), lambda x, w: x * w.expand(6, 1, 1)),
    "repeated_twice": ((1, 1, 6), lambda x, w: x + w.expand(6, 6, 6)),
    "shuffled": ((2, 3), lambda x, w: x * w.t().reshape(6)[:, None, None]),
    "column": ((6, 1), lambda x, w: x * w[..., None]),
    "linear_exp": ((6, 6), lambda x, w: functional.linear(x, w.exp())),
    "linear_t": ((6, 6), lambda x, w: functional.linear(x, w.t())),
    "slope": ((6,), lambda x, w: functional.prelu(x, w.exp())),
    "group": ((6,), lambda x, w: functional.group_norm(x, 2, w.flip(0))),
    "less": ((6, 1, 1), lambda x, w: torch.sub(x, w, alpha=2)),
    "token": ((1, 6, 6), lambda x, w: x + w.exp().expand(6, 6, 6)),
}
# All of them, in rows in which no shape is there twice: it alone must not tell whose a tensor is.
ROWS = [
    "slice part repeated repeated_twice shuffled column linear_exp slope less token".split(),
    ["linear_t", "group"],
]
ALIKE: Mapping[str, tuple[tuple[int, ...], Use]] = {
    "linear": ((6, 6), functional.linear),
    "turned": ((6, 6), lambda x, w: x @ w.t()),
    "slope": ((6,), functional.prelu),
    "group": ((6,), lambda x, w: functional.group_norm(x, 2, w)),
    "token": ((1, 6, 6), lambda x, w: x + w.expand(6, 6, 6)),
    "scale": ((6,), lambda x, w: x * w.exp()),
}


class Used(nn.Module):
    """A parameter, and what is done to it."""

    def __init__(self, shape: tuple[int, ...], use: Use) -> None:
        super().__init__()
        self.weight, self.use = nn.Parameter(torch.randn(shape)), use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.use(x, self.weight)


class Row(nn.Module):
    """Images (samples, 6, 6, 6) through each use in turn."""

    def __init__(self, uses: Mapping[str, tuple[tuple[int, ...], Use]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.by = nn.ModuleDict({f"on_{name}": Used(*use) for name, use in uses.items()})
        self.head = nn.Linear(216, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for used in self.by.values():
            x = torch.tanh(used(x))
        return self.head(x.flatten(1))


def exported(module: nn.Module, folder: Path) -> Path:
    path = folder / "m.onnx"
    x = torch.randn(2, 6, 6, 6)
    torch.onnx.export(module.eval(), (x,), path, dynamo=True, verbose=False, external_data=False)
    return path


def graph_of(module: nn.Module, folder: Path) -> Graph:
    return specialize(load_model(exported(module, folder)))


def scaled(change: Change, layout: Change) -> tuple[tuple[int, ...], Use]:
    return (6,), lambda x, w: x * layout(change(w))


def multiplied(change: Change, layout: Change) -> tuple[tuple[int, ...], Use]:
    return (6, 6), lambda x, w: x @ layout(change(w))


def test_each_use_is_in_a_row_by_its_shape() -> None:
    assert sorted(name for names in ROWS for name in names) == sorted(OTHERS)
    for names in ROWS:
        assert len({OTHERS[name][0] for name in names}) == len(names)


def is_none_of_the_module(graph: Graph, module: Row) -> None:
    names = {name for name, _ in module.named_parameters() if name.startswith("by.")}
    noted = "\n".join(graph.notes)
    assert not names & graph.parameters.keys()
    assert "own names and shapes again" not in noted
    assert "apart again" not in noted


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_row_that_is_laid_out_anew_is_not_the_parameter(
    layout: str, tmp_path: Path
) -> None:
    module = Row({name: scaled(change, LAYOUTS[layout]) for name, change in CHANGES.items()})
    is_none_of_the_module(graph_of(module, tmp_path), module)


@pytest.mark.parametrize("turn", TURNS)
def test_a_changed_matrix_that_is_turned_is_not_the_parameter(turn: str, tmp_path: Path) -> None:
    module = Row({name: multiplied(change, TURNS[turn]) for name, change in CHANGES.items()})
    is_none_of_the_module(graph_of(module, tmp_path), module)


@pytest.mark.parametrize("names", ROWS, ids=lambda names: f"{len(names)} uses")
def test_what_is_no_layout_of_all_elements_is_not_the_parameter(
    names: list[str], tmp_path: Path
) -> None:
    module = Row({name: OTHERS[name] for name in names})
    graph = graph_of(module, tmp_path)
    is_none_of_the_module(graph, module)
    noted = "\n".join(note for note in graph.notes if "computed" in note)
    assert [name for name in names if f"by.on_{name}.weight" not in noted] == []


@pytest.mark.parametrize("uses", ["rows", "calls"])
def test_a_layout_of_all_elements_is_the_parameter(uses: str, tmp_path: Path) -> None:
    rows = {name: scaled(torch.clone, layout) for name, layout in LAYOUTS.items()}
    module = Row(rows if uses == "rows" else ALIKE)
    graph = graph_of(module, tmp_path)
    for name, value in module.named_parameters():
        expected = value.detach().numpy()
        assert graph.parameters[name].shape == expected.shape, name
        np.testing.assert_allclose(graph.parameters[name], expected, rtol=1e-5, err_msg=name)
    assert not any("computed" in note for note in graph.notes)


def test_an_exponential_that_equals_another_parameter_is_not_its_own(tmp_path: Path) -> None:
    """The exporter stores a scale of ones and exp(zeros) once, and says nothing of the latter."""

    class Fresh(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(6)
            self.scale = Used((6,), lambda x, w: x * w.exp())
            nn.init.zeros_(self.scale.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale(self.norm(x)).mean((1, 2))

    graph = graph_of(Fresh(), tmp_path)
    assert "scale.weight" not in graph.parameters
    assert any("scale.weight" in note for note in graph.notes)


@pytest.mark.parametrize("change", ["exp", "flip"])
def test_to_torch_refuses_what_was_computed(change: str, tmp_path: Path) -> None:
    module = Row({change: scaled(CHANGES[change], LAYOUTS["unsqueezed"])})
    before = {name: value.clone() for name, value in module.state_dict().items()}
    trainer = odtc.compile(exported(module, tmp_path)).trainer()
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 6)).astype(np.float32)
    trainer.step(x, np.array([0, 1]), lr=0.1)
    with pytest.raises(DataError, match=f"missing in the step: by.on_{change}.weight"):
        trainer.to_torch(module)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
