"""Pipelines print as text and are read back, for each target and each kind of step."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.autoschedule.table import SCHEDULE_PASSES, schedule_passes
from odtc.backends.cost.layout_cost import layout_costs
from odtc.backends.families import family_of
from odtc.backends.objects.outlines import RecallKernels
from odtc.backends.pipeline import phases
from odtc.backends.pipeline.known import BACKEND_PASSES, known_passes
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.pipeline.phases import Row, order_phase, pipeline_of, rewrite_phase
from odtc.backends.targets import CPU, Target, parse_target
from odtc.core.errors import UsageError
from odtc.passes.checkpoint.problem import Recomputation, plan_of
from odtc.passes.contract import Pass, Pipeline
from odtc.passes.graph.half_storage import HalfStorage
from odtc.passes.graph.join_reshapes import JoinReshapes
from odtc.passes.kernel.fuse_named import FuseNamed
from odtc.passes.layout.select import SelectLayouts
from odtc.passes.memory.operator_order import Task, Tasks
from odtc.passes.pipeline.table import PASSES, tvm_table
from odtc.passes.pipeline.text import parse_pipeline, pipeline_text
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from tests.fast import examples

ROOT = Path(__file__).parents[2]
STEP = "train_step"
# Every kind of machine; GPUs of this one depend on what drivers are installed.
TARGETS = (
    "host-cpu",
    "host-cpu{threads=1}",
    "linux-arm64-cpu",
    "android-cpu{mcpu=cortex-a55}",
    "android-cpu{mcpu=cortex-a76,threads=4}",
    "android-opencl",
    "android-opencl{gpu=adreno-640}",
    "android-vulkan",
)


def options_of(
    target: Target,
    *,
    trains: bool = True,
    half: bool = False,
    layouts: bool = False,
    recalls: bool = False,
    again: bool = False,
    may_wait: bool = False,
) -> PipelineOptions:
    family = family_of(target, has_half=half, direct=may_wait)
    rewrites = [
        *([HalfStorage(STEP, least=16)] if half else ()),
        *([SelectLayouts(STEP, layout_costs(target), margin=0.25)] if layouts else ()),
    ]
    problem = Recomputation(Tasks((Task((0,), frozenset()),), (8,)), (1.0,), (0,))
    plans = [plan_of(problem, [0])]
    return PipelineOptions(
        family,
        STEP if trains else None,
        rewrites,
        [RecallKernels("a hash", outlines=True)] if recalls else (),
        schedule_passes(target),
        checkpoints=InsertCheckpoints(STEP, family.slots, problem, plans) if again else None,
        may_wait=may_wait,
    )


@st.composite
def options(draw: st.DrawFn) -> PipelineOptions:
    target = parse_target(draw(st.sampled_from(TARGETS))).resolved()
    names = ["trains", "half", "again", "may_wait", "recalls"]
    given = {name: draw(st.booleans()) for name in names}
    layouts = target.kind == CPU and draw(st.booleans())
    return options_of(target, **given, layouts=layouts)


@settings(max_examples=examples(100))
@given(options())
def test_a_pipeline_reads_back_as_it_was_printed(of: PipelineOptions) -> None:
    made, known = pipeline_of(of), known_passes(of)
    assert parse_pipeline(pipeline_text(made), known) == made
    # One pass a line is as good.
    assert parse_pipeline(",\n  ".join(map(str, made)), known) == made


@settings(max_examples=examples(50))
@given(options(), st.data())
def test_so_does_any_order_of_its_passes(of: PipelineOptions, data: st.DataObject) -> None:
    made = tuple(data.draw(st.lists(st.sampled_from(pipeline_of(of)), min_size=1)))
    assert parse_pipeline(pipeline_text(made), known_passes(of)) == made


@pytest.mark.parametrize("target", TARGETS)
def test_each_pass_says_by_what_it_is_known(target: str) -> None:
    """Two that are not alike have other texts."""
    of = options_of(parse_target(target).resolved(), half=True)
    made = pipeline_of(of)
    for one, other in pairwise(sorted(made, key=str)):
        assert (one == other) == (str(one) == str(other))


def titles(passes: Pipeline) -> list[str]:
    return [each.title for each in passes]


CPU_ORDER = ["write-over", "order-calls"]


def test_rows_say_when_a_pass_runs() -> None:
    cpu, gpu = (parse_target(text).resolved() for text in ("host-cpu", "android-vulkan"))
    on_cpu, on_gpu = (titles(pipeline_of(options_of(each))) for each in (cpu, gpu))
    assert {"update-rows", "gather-marks", "read-normalised", "write-over"} <= {*on_cpu}
    assert {"spell-out-attention", "bind-loops", "check-launches", "group-updates"} <= {*on_gpu}
    assert not {*on_cpu} & {"bind-loops", "half-storage", "select-layouts", "insert-checkpoints"}
    assert not {*on_gpu} & {"gather-marks", "read-normalised", "write-over"}
    forward = titles(pipeline_of(options_of(cpu, trains=False)))
    assert not {*forward} & {"name-tensors", "absorb-activation", "immediate-update"}
    again = titles(pipeline_of(options_of(cpu, again=True)))
    assert "insert-checkpoints" in again
    assert "order-calls" not in again
    family = family_of(cpu)
    assert CPU_ORDER[0] in titles(order_phase(STEP, family))
    assert titles(order_phase(STEP, family, may_wait=True))[-1:] == CPU_ORDER[1:]


def test_a_rewrite_without_a_row_is_not_lost() -> None:
    with pytest.raises(ValueError, match="no row for join-reshapes"):
        rewrite_phase(STEP, family_of(parse_target("host-cpu").resolved()), [JoinReshapes()])


def registered() -> dict[str, type[Pass]]:
    return {**PASSES, **BACKEND_PASSES, **SCHEDULE_PASSES}


def classes() -> Iterator[str]:
    """Names of the classes of passes, but for that of TVM's own."""
    for folder in ("passes", "backends", "autoschedule", "frontend", "runtime_rpc", "odtc/driver"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and "Pass" in map(ast.unparse, node.bases):
                    yield node.name


def test_every_pass_is_in_a_table() -> None:
    assert sorted(classes()) == sorted([*(k.__name__ for k in registered().values()), "TvmPass"])


def test_rows_name_passes_that_are_in_a_table() -> None:
    tables = (phases.REWRITE, phases.FUSE, phases.ORDER, phases.PLAN, phases.ARENA)
    names = {row.name for table in tables for row in table if isinstance(row, Row)}
    assert names <= {*registered(), *tvm_table()}


WRONG = {
    "absorb-transpos": "unknown pass 'absorb-transpos'.*did you mean absorb-transpose",
    "tvm.FuseTir": "unknown pass 'tvm.FuseTir'.*did you mean tvm.FuseTIR",
    "join-reshapes,": "cannot read the pass ''",
    "join-reshapes{": "cannot read the pass 'join-reshapes{'",
    "fuse-named{mots=3}": "no option 'mots'.*did you mean most.*its options are most",
    "fuse-named{most=few}": "option most is 'few', which is not a whole number",
    "fuse-named{most=-3}": "option most -3 is below 0",
    "half-in-memory{computes=1}": "option computes is '1', which is not a switch",
    "tvm.FuseTIR{label=x}": "the pass tvm.FuseTIR has no option 'label'.*it has no options",
    "by-kernel{passes=x}": "the pass by-kernel has no option 'passes'",
    "join-reshapes(tvm.FuseTIR)": "join-reshapes takes no passes in parentheses",
    "by-kernel(tvm.FuseTIR,compact)": "unknown pass 'compact'",
    "by-kernel(" * 3000 + ")" * 3000: "passes are nested more than 8 deep",
    "bind-loops": "lacks its option items.*write bind-loops{items=VALUE}",
    "insert-checkpoints{slots=1}": "for this target and step: they provide no function",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text_is_refused(text: str) -> None:
    known = known_passes(options_of(parse_target("host-cpu").resolved()))
    with pytest.raises(UsageError) as refused:
        parse_pipeline(text, known)
    assert_matches(WRONG[text], f"{refused.value.what}; {refused.value.hint}")


def assert_matches(pattern: str, text: str) -> None:
    parts = [text.find(each) for each in pattern.split(".*")]
    assert -1 not in parts, text
    assert parts == sorted(parts)


def test_an_option_is_changed_and_the_rest_is_the_targets() -> None:
    of = options_of(parse_target("android-vulkan").resolved())
    usual, cut, any_number = parse_pipeline(
        "fuse-named,fuse-named{most=64},fuse-named{most=none}", known_passes(of)
    )
    assert usual in pipeline_of(of)
    assert cut == FuseNamed(STEP, 64, of.family.grown)
    assert any_number == FuseNamed(STEP, None, of.family.grown)
