"""Times that were measured beside times of a model: proportions stay those of the device."""

from collections.abc import Iterable

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from odtc.backends.cost.call_cost import call_cost
from odtc.backends.cost.measured_times import NOTHING, Measured, measured_times
from odtc.backends.decisions import TunedChoice
from odtc.backends.families import family_of
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.targets import parse_target
from odtc.backends.write_products import WriteProducts
from odtc.core.ir.product_marks import TUNED, WORKLOAD
from odtc.passes.contract import run_pipeline
from tests.backends.test_decisions import module_of

TARGET = parse_target("host-cpu{threads=1}").resolved()
MACHINE = machine_of(256)
FAMILIES = ("convolution", "data-gradient", "weight-gradient")


def kernels_of(module: tvm.IRModule, told: str = "") -> dict[str, tirx.PrimFunc]:
    """The products of a module with their loops, by workload; a family is given its choice."""

    def records(workload: str) -> TunedChoice | None:
        is_told = told and workload.startswith(told)
        return TunedChoice({"tile": (2, 1)}, "here") if is_told else None

    passes = (WriteProducts(MACHINE, CPU_LOOPS, records), *family_of(TARGET).blocks)
    with TARGET.to_tvm():
        written = run_pipeline(passes, module)
    kernels = [each for _, each in written.functions_items() if isinstance(each, tirx.PrimFunc)]
    return {str(each.attrs[WORKLOAD]): each for each in kernels if WORKLOAD in each.attrs}


@pytest.fixture(scope="module")
def kernels() -> dict[str, tirx.PrimFunc]:
    """Nine products, three of each family."""
    modules = (module_of(3, channels, 40) for channels in (8, 16, 24))
    return {name: kernel for module in modules for name, kernel in kernels_of(module).items()}


def modelled(kernels: dict[str, tirx.PrimFunc]) -> dict[str, float]:
    cost = call_cost(TARGET)
    return {name: cost(kernel).seconds for name, kernel in kernels.items()}


def known(model: dict[str, float], names: Iterable[str], ratio: float) -> dict[str, Measured]:
    """Measurements that are all so many times what the model says."""
    return {name: Measured(ratio * model[name], ratio * model[name], model[name]) for name in names}


@given(
    st.dictionaries(st.tuples(st.sampled_from(FAMILIES), st.text()), st.floats(1e-6, 1)),
    st.floats(0.01, 100),
)
def test_a_model_that_errs_alike_everywhere_has_one_factor(model, ratio: float) -> None:
    names = {f"{family}({rest}": seconds for (family, rest), seconds in model.items()}
    times = measured_times(known(names, names, ratio))
    for other in (*FAMILIES, ""):
        assert times.factor_of(f"{other}(another") == pytest.approx(ratio if names else 1)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_then_no_proportion_changes(kernels, count: int) -> None:
    """However few calls were measured: else those few were cheap, or dear, beside all others."""
    model, ratio = modelled(kernels), 0.25
    names = sorted(model)[:count]
    cost = call_cost(TARGET, measured_times(known(model, names, ratio)))
    for name, kernel in kernels.items():
        found = cost(kernel)
        assert found.seconds == pytest.approx(ratio * model[name])
        assert found.is_measured == (name in names)


def test_a_family_that_enough_is_known_of_has_a_factor_of_its_own(kernels) -> None:
    model = modelled(kernels)
    of = {family: [n for n in model if n.startswith(family)] for family in FAMILIES}
    assert [len(names) for names in of.values()] == [3, 3, 3]
    convolutions, *others = of["convolution"]
    measured = known(model, of["weight-gradient"], 3.0) | known(model, [convolutions], 7.0)
    times = measured_times(measured)
    assert times.factor_of(of["weight-gradient"][0]) == pytest.approx(3)
    # One convolution says as much of the others as all that was measured does.
    assert times.factor_of(others[0]) == times.factor_of("") == pytest.approx(3)


def test_the_median_counts_and_not_one_that_is_far_off(kernels) -> None:
    model = modelled(kernels)
    first, *others = [name for name in model if name.startswith("convolution")]
    times = measured_times(known(model, others, 2.0) | known(model, [first], 500.0))
    assert times.factor_of(first) == pytest.approx(2)
    assert times.seconds(first, is_tuned=False) == pytest.approx(500 * model[first])


def test_nothing_that_was_measured_leaves_the_model_as_it_is(kernels) -> None:
    assert measured_times({}) == NOTHING
    cost, plain = call_cost(TARGET, NOTHING), call_cost(TARGET)
    assert all(cost(kernel) == plain(kernel) for kernel in kernels.values())
    assert not any(plain(kernel).is_measured for kernel in kernels.values())


def test_a_kernel_with_the_loops_of_a_record_takes_what_they_take() -> None:
    module = module_of(3, 24, 40)
    usual, tuned = kernels_of(module), kernels_of(module, "convolution")
    (name,) = (each for each in usual if each.startswith("convolution"))
    assert TUNED in tuned[name].attrs
    assert TUNED not in usual[name].attrs
    cost = call_cost(TARGET, measured_times({name: Measured(5.0, 4.0, 5.0)}))
    assert cost(usual[name]).seconds == 5.0
    assert cost(tuned[name]).seconds == 4.0
