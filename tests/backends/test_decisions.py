"""Decisions of kernels: all candidates compute the same, and a given choice is written."""

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.relax import transform as X  # noqa: N812

from odtc.backends.cost.workload import workload_of
from odtc.backends.decisions import Decisions, TunedChoice
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.gpu.machine import PHONE
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules, marked
from odtc.backends.kernels.convolution.terms import Convolution
from odtc.backends.kernels.grouped.depthwise import FAMILIES
from odtc.backends.kernels.norm.normalised import Normal
from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.write_products import WriteProducts, write_product
from odtc.core.ir.product_marks import TUNED
from odtc.dialect.images.batch_norm import ACTIVATIONS
from tests.fast import examples
from tests.host import loaded

MACHINE = machine_of(256)


def module_of(kernel: int, channels: int, filters: int, name: str = "x") -> tvm.IRModule:
    """A convolution with a rectifier after it, and both of its gradients."""
    image, weight = (3, channels, 9, 9), (filters, channels, kernel, kernel)
    output = (3, filters, 9, 9)
    x, w, dy = (
        relax.Var(f"{name}{n}", relax.TensorType(shape, "float32"))
        for n, shape in enumerate((image, weight, output))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            pad = kernel // 2
            y = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(x, w, padding=pad)))
            dx = builder.emit(relax.op.nn.conv2d_transpose(dy, w, padding=pad))
            dw = builder.emit(
                relax.op.nn.conv2d(
                    x, dy, padding=pad, data_layout="CNHW", kernel_layout="IOHW", out_layout="CNHW"
                )
            )
            result = builder.emit_output(relax.Tuple([y, dx, dw]))
        builder.emit_func_output(result)
    module = builder.finalize()
    for step in (
        X.LegalizeOps(convolution_rules()),
        X.AnnotateTIROpPattern(),
        X.FuseOps(),
        X.FuseTIR(),
        X.DeadCodeElimination(),
    ):
        module = step(module)
    return module


def products_of(module: tvm.IRModule) -> dict[str, FusedProduct]:
    """The products of a module, by family."""
    found = (fused_product(f) for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc))
    return {product.family: product for product in found if product}


def run(product: FusedProduct, choice: dict) -> np.ndarray:
    """Runs the kernel that a choice gives."""
    machine, _ = MACHINE.telling(choice)
    kernel = write_product(product, machine, CPU_LOOPS).with_attr("global_symbol", "main")
    library = loaded(tvm.IRModule({"main": kernel}))
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    arrays = [tvm.runtime.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    library["main"](*arrays)
    return arrays[-1].numpy()


@pytest.mark.parametrize("family", ["convolution", "data-gradient", "weight-gradient"])
@pytest.mark.parametrize("kernel", [1, 3])
@settings(max_examples=examples(6), deadline=None)
@given(data=st.data())
def test_every_candidate_computes_the_same(family: str, kernel: int, data: st.DataObject) -> None:
    product = products_of(module_of(kernel, 24, 40))[family]
    choice = {}
    # A decision may depend on those before it: each is drawn of what there is then, and none that
    # comes before one that was drawn.
    for _ in range(3):
        machine, decisions = MACHINE.telling(choice)
        write_product(product, machine, CPU_LOOPS)
        assert not decisions.unknown
        names = list(decisions.made)
        left = names[1 + max((names.index(name) for name in choice), default=-1) :]
        if not left:
            break
        name = data.draw(st.sampled_from(left))
        choice[name] = data.draw(st.sampled_from(decisions.made[name].candidates))
    machine, decisions = MACHINE.telling(choice)
    write_product(product, machine, CPU_LOOPS)
    assert not decisions.unknown
    np.testing.assert_allclose(run(product, choice), run(product, {}), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["convolution", "data-gradient", "weight-gradient"])
def test_products_have_decisions_of_both_machines(family: str) -> None:
    product = products_of(module_of(3, 24, 40))[family]
    for machine, loops, least in ((MACHINE, CPU_LOOPS, 3), (PHONE, GPU_LOOPS, 3)):
        told, decisions = machine.telling({})
        write_product(product, told, loops)
        assert len(decisions.made) >= least
        assert all(d.default == d.taken == d.candidates[0] for d in decisions.made.values())


def test_what_is_no_candidate_is_not_taken() -> None:
    decisions = Decisions({"tile": (7, 7), "gone": (1,)})
    assert decisions.decide("tile", [(2, 4)], (4, 2)) == (4, 2)
    assert decisions.unknown == {"tile": (7, 7), "gone": (1,)}
    assert decisions.made["tile"].candidates == ((4, 2), (2, 4))


def test_a_workload_is_the_same_text_whatever_its_variables_are_called() -> None:
    ours, theirs = (products_of(module_of(3, 8, 40, name)) for name in ("x", "lv"))
    texts = [workload_of(product, MACHINE) for product in ours.values()]
    assert texts == [workload_of(product, MACHINE) for product in theirs.values()]
    assert len(set(texts)) == 3
    others = products_of(module_of(3, 8, 48))
    assert not set(texts) & {workload_of(product, MACHINE) for product in others.values()}
    half = machine_of(256, has_half=True)
    assert not set(texts) & {workload_of(product, half) for product in ours.values()}


def test_what_is_fused_behind_a_product_is_part_of_its_workload() -> None:
    module = module_of(3, 8, 40)
    text = workload_of(products_of(module)["convolution"], MACHINE)
    assert text.endswith("= T.max(x, T.float32(0.0))")


@pytest.mark.parametrize("tile", [(2, 1), (9, 9)])
def test_a_record_is_applied_only_where_it_is_of_this_kernel(tile: tuple[int, int]) -> None:
    module = module_of(3, 24, 40)
    product = products_of(module)["convolution"]
    wanted = workload_of(product, MACHINE)
    machine, decisions = MACHINE.telling({})
    write_product(product, machine, CPU_LOOPS)
    known = next(
        c for c in decisions.made["tile"].candidates if c != decisions.made["tile"].default
    )
    choice = {"tile": known if tile == (2, 1) else tile}
    written = WriteProducts(
        MACHINE, CPU_LOOPS, lambda text: TunedChoice(choice, "here") if text == wanted else None
    ).run(module)
    marked = [
        str(function.attrs[TUNED])
        for _, function in written.functions_items()
        if isinstance(function, tirx.PrimFunc) and TUNED in function.attrs
    ]
    assert marked == (["here"] if tile == (2, 1) else [])


@pytest.mark.parametrize("groups", [1, 8])
def test_what_an_operand_becomes_as_it_is_read_is_part_of_a_workload(groups: int) -> None:
    shapes = [(2, 8, 9, 9), (8, 8 // groups, 3, 3), (2, 8, 9, 9)]
    convolution = Convolution("convolution", shapes, (1, 1), (1, 1), (1, 1), groups)
    family = FAMILIES["convolution"] if groups > 1 else "convolution"

    def text(normal: Normal) -> str:
        given = normal.arguments(shapes[0], "float32").values()
        operands = [
            relax.Var(f"x{n}", relax.TensorType(shape, dtype))
            for n, (shape, dtype) in enumerate([*given, (shapes[1], "float32")])
        ]
        product = fused_product(marked(convolution, family, operands, normal))
        assert product
        return workload_of(product, MACHINE)

    texts = [text(Normal(activation, 8)) for activation in ("", *ACTIVATIONS)]
    assert len(set(texts)) == 3
    # Which channels of a tensor it is makes no difference to its loops.
    assert text(Normal("", 12, 4)) == text(Normal("", 12))
