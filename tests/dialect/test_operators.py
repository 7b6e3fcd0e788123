"""The declarations of our own operators hold for a small call, and each name has one place."""

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest
import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from odtc.autoschedule.table import schedule_passes
from odtc.backends.families import family_of
from odtc.backends.family.family import Family
from odtc.backends.legalize import Legalize
from odtc.backends.lowering import fuse_phase
from odtc.backends.targets import parse_target
from odtc.core.ir.layouts import LAST, permuted
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.channels_last import IMAGE
from odtc.dialect.elements.bit_cast import bit_cast
from odtc.dialect.gradient.attach import attach
from odtc.dialect.gradient.seed import seed
from odtc.dialect.images.copies import concat_last, relayout
from odtc.dialect.operator import PREFIX, RelaxOperator
from odtc.dialect.table import OPERATORS
from odtc.passes.checkpoint.work import operations
from odtc.passes.contract import run_pipeline
from tests.dialect.examples import EXAMPLES, Example

ROOT = Path(__file__).parents[2]
CASES = [
    pytest.param(operator, example, id=operator.name) for operator, example in EXAMPLES.items()
]
# The gradient pass takes these away.
GONE = {attach, seed}
# These compute nothing.
MOVING = {bit_cast, concat_last, relayout}
# What has no kernel, by target: no layouts are chosen for GPUs.
WITHOUT_KERNEL = {"host-cpu": GONE, "android-opencl": {*GONE, relayout, concat_last}}


def types_of(type_: relax.Type) -> tuple[relax.Type, ...]:
    """The types of the tensors of a result."""
    return tuple(type_.fields) if isinstance(type_, relax.TupleType) else (type_,)


def given_by(module: tvm.IRModule) -> tuple[relax.Type, ...]:
    """The types of what the function of an example gives."""
    return types_of(module["f"].ret_ty)


def alike(found: tuple[relax.Type, ...], wanted: tuple[relax.Type, ...]) -> bool:
    return len(found) == len(wanted) and all(map(tvm_ffi.structural_equal, found, wanted))


def test_every_operator_has_an_example() -> None:
    assert OPERATORS.keys() == {operator.name for operator in EXAMPLES}


def test_tvm_knows_no_other_operator_of_ours() -> None:
    """Whatever makes a step is loaded; an operator that is declared elsewhere is in no table."""
    for name in ("odtc.driver.building", "odtc.frontend.training", "odtc.backends.lowering"):
        import_module(name)
    known = {name for name in ir.Op.list_op_names() if name.startswith(PREFIX)}
    assert known == OPERATORS.keys()


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_the_type_rule(operator: RelaxOperator, example: Example) -> None:
    assert alike(given_by(example.call_in(operator)), example.gives)


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_attributes_are_checked_as_a_call_is_made(
    operator: RelaxOperator, example: Example
) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        example.call_in(operator, nonsense=1)
    for name in example.attributes:
        fewer = {key: value for key, value in example.attributes.items() if key != name}
        with pytest.raises(TypeError, match=f"missing 1 required .* '{name}'"):
            Example(example.given, example.gives, fewer).call_in(operator)


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_attributes_are_read_as_they_were_given(operator: RelaxOperator, example: Example) -> None:
    (block,) = example.call_in(operator)["f"].body.blocks
    read = vars(operator.read(block.bindings[0].value))
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in example.attributes.items()}
    assert read | given == read
    assert [type(read[key]) for key in given] == [type(value) for value in given.values()]


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_the_gradient(operator: RelaxOperator, example: Example) -> None:
    """One adjoint for each argument, of its type; what declares none has none of TVM's either."""
    rule = ir.Op.get(operator.name).get_attr("FPrimalGradient")
    if operator.gradient is None:
        assert rule is None
        return
    module = example.call_in(operator)
    (block,) = module["f"].body.blocks
    call, builder = block.bindings[0].value, relax.BlockBuilder()
    with builder.testing_scope([]):
        result = relax.DataflowVar("y", call.ty)
        adjoints = rule(result, call, relax.DataflowVar("dy", call.ty), builder)
        assert len(adjoints) == len(call.args)
        for adjoint, argument in zip(adjoints, call.args, strict=True):
            if operator_of(adjoint) != "relax.grad.no_grad":
                assert tvm_ffi.structural_equal(builder.normalize(adjoint).ty, argument.ty)


@pytest.mark.parametrize(
    ("operator", "example"),
    [(each, example) for each, example in EXAMPLES.items() if each.has_layout],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_type_of_images_with_channels_last(operator: RelaxOperator, example: Example) -> None:
    """An operator that takes a layout says where it reads images, and gives what it gave before."""
    said = operator.channels_last
    assert said is not None
    (block,) = example.call_in(operator)["f"].body.blocks
    assert said.condition(block.bindings[0].value)
    given = tuple(
        last(type_) if place in said.images else type_ for place, type_ in enumerate(example.given)
    )
    attributes = dict(example.attributes)
    if "shape" in attributes:
        attributes["shape"] = list(permuted(attributes["shape"], LAST))
    module = Example(given, (), attributes).call_in(operator, layout=LAST)
    wanted = [
        last(type_) if said.makes_images and type_.ndim == IMAGE else type_
        for type_ in example.gives
    ]
    assert alike(given_by(module), tuple(wanted))


def last(type_: relax.TensorType) -> relax.TensorType:
    """A type of images with channels last."""
    return relax.TensorType(permuted([int(size) for size in type_.shape], LAST), type_.dtype)


@pytest.fixture(scope="module")
def families() -> dict[str, Family]:
    return {target: family_of(parse_target(target)) for target in WITHOUT_KERNEL}


@pytest.mark.parametrize("target", WITHOUT_KERNEL)
@pytest.mark.parametrize(("operator", "example"), CASES)
def test_every_kind_of_target_has_a_kernel(
    operator: RelaxOperator, example: Example, target: str, families: dict[str, Family]
) -> None:
    family = families[target]
    module = example.call_in(operator)
    for rewrite in family.rewrites:
        module = rewrite.run(module)
    made = Legalize(family.rules, (), stay=False).run(module)
    (block,) = made["f"].body.blocks
    left = [b for b in block.bindings if operator_of(b.value).startswith(PREFIX)]
    assert bool(left) == (operator in WITHOUT_KERNEL[target])


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_work_is_counted_in_the_loops(
    operator: RelaxOperator, example: Example, families: dict[str, Family]
) -> None:
    """Nobody declares operations: those of what computes are found in its kernel."""
    target, family = parse_target("host-cpu"), families["host-cpu"]
    phases = (*fuse_phase(family), *schedule_passes(target), *family.blocks)
    made = run_pipeline(phases, example.call_in(operator))
    kernels = [each for _, each in made.functions_items() if isinstance(each, tirx.PrimFunc)]
    assert bool(sum(map(operations, kernels))) == (operator not in {*GONE, *MOVING})


@pytest.mark.parametrize(("operator", "example"), CASES)
def test_what_passes_ask(operator: RelaxOperator, example: Example) -> None:
    if operator.draws:
        assert alike(example.given[-1:], (relax.TensorType((), "int32"),))
    if operator.maps:
        assert alike(example.given, example.gives)
    large = example.gives[operator.large.start : operator.large.stop]
    assert bool(large) == bool(operator.large)
    assert {str(type_.dtype) for type_ in large} <= {"float32"}


def test_a_name_is_written_in_the_file_of_its_operator_alone() -> None:
    places: defaultdict[str, set[str]] = defaultdict(set)
    # Beside what `pip wheel` leaves.
    ignored = {"build", "dist"}
    folders = [
        each
        for each in ROOT.iterdir()
        if each.is_dir() and each.name[0] != "." and each.name not in ignored
    ]
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        text = file.read_text()
        if f'"{PREFIX}' in text or f"'{PREFIX}" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and node.value in OPERATORS:
                    places[node.value].add(file.relative_to(ROOT).as_posix())
    assert places.keys() == OPERATORS.keys()
    for name, files in places.items():
        (file,) = files
        assert file.startswith("odtc/dialect/"), name
