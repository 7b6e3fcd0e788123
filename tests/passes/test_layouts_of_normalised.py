"""Normalisations whose readers have channels second are applied by these, and plans count on it."""

from collections.abc import Callable

import pytest
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.backends.families import family_of
from odtc.backends.pipeline.phases import rewrite_phase
from odtc.backends.targets import parse_target
from odtc.core.ir.layouts import LAST, SECOND
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.batch_norm import batch_norm, batch_statistics, normalised
from odtc.passes.contract import run_pipeline
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.layout.select import SelectLayouts
from odtc.passes.layout.solve import solve
from odtc.passes.layout.step_graph import Costs, graph_of

SHAPE = (2, 16, 6, 6)
# A convolution with its channels last is so much faster than one with channels second.
GAIN, COPY, WRITTEN = 3.0, 0.5, 4.0


def step(readers: int = 2) -> tvm.IRModule:
    """A convolution, a normalisation, and convolutions that read its result, of one sum each."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    w = relax.Var("w", relax.TensorType((16, 16, 1, 1), "float32"))
    rest = [relax.Var(f"p{i}", relax.TensorType((16,), "float32")) for i in range(4)]
    with builder.function("train_step", [x, w, *rest]):
        with builder.dataflow():
            made = builder.emit(R.nn.conv2d(x, w), "made")
            call = batch_norm(made, *rest, epsilon=1e-5, momentum=0.1, activation="")
            y = builder.emit(relax.TupleGetItem(builder.emit(call, "normal"), 0), "y")
            read = [builder.emit(R.nn.conv2d(y, w), f"read{n}") for n in range(readers)]
            sums = [builder.emit(R.sum(each, [2, 3])) for each in read]
            given = builder.emit_output(relax.Tuple(sums))
        builder.emit_func_output(given)
    return builder.finalize()


def costs(call: Callable[[str, str], float], written: float = WRITTEN, most: int = 9) -> Costs:
    return Costs(
        lambda value, layout: call(operator_of(value), layout),
        lambda _: COPY,
        lambda _: written,
        most,
    )


def fast_last(name: str, layout: str) -> float:
    """Convolutions are faster with channels last, normalisations slower."""
    if name == "relax.nn.conv2d":
        return 10.0 - GAIN * (layout == LAST)
    return 1.0 + 20.0 * (layout == LAST)


def layouts_of(costs: Costs, readers: int = 2) -> dict[str, str]:
    problem = graph_of(step(readers), "train_step", costs).problem
    taken = zip(problem.operators, solve(problem).forms, strict=True)
    return {each.name: each.forms[form].name for each, form in taken if len(each.forms) > 1}


def test_channels_last_have_to_pay_for_what_the_readers_saved() -> None:
    """Two readers gain more than it takes to write what they read; one does not."""
    assert layouts_of(costs(fast_last), readers=1)["read0"] == SECOND
    assert layouts_of(costs(fast_last), readers=2)["read0"] == LAST
    assert layouts_of(costs(fast_last, written=2 * GAIN), readers=2)["read0"] == SECOND
    # It is written anyway, because its reader would compute it too often.
    assert layouts_of(costs(fast_last, most=1), readers=1)["read0"] == LAST


def test_the_cost_of_a_step_as_it_is_knows_what_is_not_written() -> None:
    problem = graph_of(step(), "train_step", costs(fast_last)).problem
    (normal,) = (each for each in problem.operators if each.name == "normal")
    assert [form.seconds for form in normal.forms] == [1.0 - WRITTEN, 21.0]
    assert problem.tensors[normal.writes[0]].written == WRITTEN
    assert sum(each.written for each in problem.tensors) == WRITTEN


PLANS = {
    "second": ({}, [batch_statistics.name], 2),
    "its-maker-last": ({"made": LAST}, [batch_statistics.name], 2),
    "a-reader-last": ({"read0": LAST}, [batch_norm.name], 0),
    "itself-last": ({"normal": LAST}, [batch_norm.name], 0),
}


@pytest.mark.parametrize("kind", PLANS)
def test_readers_compute_it_where_they_and_it_have_channels_second(kind: str) -> None:
    plan, kernels, computed = PLANS[kind]
    family = family_of(parse_target("android-cpu").resolved())
    passes = rewrite_phase(
        "train_step", family, [SelectLayouts("train_step", costs(fast_last), plan)]
    )
    names = [
        operator_of(binding.value)
        for binding in bindings_of(run_pipeline(passes, step())["train_step"])
    ]
    assert [each for each in names if each in (batch_norm.name, batch_statistics.name)] == kernels
    assert names.count(normalised.name) == computed
