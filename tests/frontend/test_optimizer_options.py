"""Optimizers and what is around them as text, as data, and as arguments of a step."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odtc
from odtc.core.errors import UsageError
from odtc.core.options.checked_options import format_choice, options_of
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.frontend.optimizers.groups import Group, parse_group
from odtc.frontend.optimizers.table import OPTIMIZERS, parse_optimizer
from odtc.frontend.optimizers.update import (
    LossScale,
    Update,
    as_update,
    parse_loss_scale,
    state_arguments,
)
from odtc.frontend.trained.quantise import parse_format

WEIGHTS = [
    Argument(Role.PARAMETER, TensorSpec(*spec)) for spec in (("a.weight", (3, 4)), ("a.bias", (3,)))
]


@st.composite
def optimizers(draw: st.DrawFn):
    """Any optimizer with any options that do not contradict each other."""
    kind = draw(st.sampled_from(list(OPTIMIZERS.values())))
    values = {
        field.name: draw(st.booleans() if field.type is bool else st.floats(1e-6, 0.99))
        for field in dataclasses.fields(kind)
    }
    if values.get("nesterov"):
        values["dampening"] = 0.0
    return kind(**values)


@given(optimizers())
def test_text_reads_back(optimizer) -> None:
    text = format_choice(optimizer.name, dataclasses.asdict(optimizer))
    assert parse_optimizer(text) == optimizer


def test_keys_are_read_with_either_sign() -> None:
    assert parse_optimizer("adamw{weight-decay=0.5}") == odtc.AdamW(weight_decay=0.5)
    assert parse_optimizer("adamw{weight_decay=0.5}") == odtc.AdamW(weight_decay=0.5)


@pytest.mark.parametrize("kind", OPTIMIZERS.values())
def test_every_option_has_a_bound(kind) -> None:
    assert options_of(kind).keys() == {field.name for field in dataclasses.fields(kind)}
    for name, field in options_of(kind).items():
        if field.type is float:
            with pytest.raises(UsageError, match=f"{name} -1"):
                kind(**{name: -1})
            with pytest.raises(UsageError, match=f"{name} nan"):
                kind(**{name: float("nan")})


def test_loss_scale() -> None:
    assert (
        parse_loss_scale("dynamic")
        == LossScale()
        == Update(odtc.SGD(), loss_scale="dynamic").scaling
    )
    assert parse_loss_scale("dynamic{interval=5}") == LossScale(interval=5)


def test_groups() -> None:
    text = "*/b.[ab]ias{weight-decay=0,lr-factor=2}"
    group = parse_group(text, odtc.AdamW())
    assert group == Group("*/b.[ab]ias", {"weight_decay": 0.0}, 2.0)
    rule = Update(odtc.AdamW(beta1=0.5), [group]).rule_of("x/b.bias")
    assert rule.optimizer == odtc.AdamW(beta1=0.5, weight_decay=0.0)
    assert rule.lr_factor == 2.0
    assert Update(odtc.AdamW(), [group]).rule_of("x/b.weight").optimizer == odtc.AdamW()
    assert parse_group("*{nesterov=true,momentum=0.9}", odtc.SGD()).options == {
        "nesterov": True,
        "momentum": 0.9,
    }


def test_arguments() -> None:
    update = Update(
        odtc.Adagrad(initial_accumulator=0.5), accumulate=2, ema=0.9, loss_scale="dynamic"
    )
    found = [
        (item.role, item.spec.name, item.spec.shape, item.initial)
        for item in state_arguments(update, WEIGHTS)
    ]
    assert found == [
        (Role.STATE, "update/loss-scale", (), 65536.0),
        (Role.STATE, "update/good", (), 0.0),
        (Role.STATE, "update/count", (), 0.0),
        (Role.STATE, "square/a.weight", (3, 4), 0.5),
        (Role.STATE, "accumulator/a.weight", (3, 4), 0.0),
        (Role.AVERAGE, "ema/a.weight", (3, 4), 0.0),
        (Role.STATE, "square/a.bias", (3,), 0.5),
        (Role.STATE, "accumulator/a.bias", (3,), 0.0),
        (Role.AVERAGE, "ema/a.bias", (3,), 0.0),
    ]
    assert not state_arguments(as_update(odtc.SGD()), WEIGHTS)
    with pytest.raises(UsageError, match="no trained parameter matches the group 'b"):
        state_arguments(Update(odtc.SGD(), [Group("b.*")]), WEIGHTS)


def test_what_breaks_a_bound_is_said_with_whose_option_it_is() -> None:
    with pytest.raises(UsageError, match=r"the optimizer adam.eps=0.: eps 0.0 is not"):
        parse_optimizer("adam{eps=0}")
    with pytest.raises(UsageError, match=r"the quantization int4.block=0.: block 0 is below 1"):
        parse_format("int4{block=0}")


def test_the_manifest_can_hold_all_options() -> None:
    update = Update(
        odtc.SGD(), [Group("*.bias", {"momentum": 0.5}, 2)], clip_norm=1, loss_scale="dynamic"
    )
    data = update.options()
    assert json.loads(json.dumps(data)) == data
    assert data["groups"] == [{"glob": "*.bias", "options": {"momentum": 0.5}, "lr_factor": 2.0}]
    assert data["clip_norm"] == 1.0
    assert data["accumulate"] == 1
    assert data["loss_scale"]["interval"] == 2000


@pytest.mark.parametrize("value", [1e39, 1e-46])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: odtc.Adam(eps=value),
        lambda value: Update("sgd", clip_norm=value),
        lambda value: Update("sgd", clip_value=value),
        lambda value: LossScale(initial=value),
    ],
)
def test_numbers_that_float32_does_not_have_are_told(make, value: float) -> None:
    with pytest.raises(UsageError, match=r"1e.* is not a number above 0 in float32"):
        make(value)


def test_numbers_over_those_of_float32_are_told() -> None:
    for make in (
        lambda value: odtc.AdamW(weight_decay=value),
        lambda value: odtc.Adagrad(initial_accumulator=value),
        lambda value: Group("*", {}, value),
    ):
        make(1e-46)
        with pytest.raises(UsageError, match=r"1e\+39 is not a number of at least 0 in float32"):
            make(1e39)


def test_options_of_groups_are_read_as_the_optimizers_are() -> None:
    options = {"weight_decay": np.float32(0.5), "nesterov": np.bool_(True), "momentum": "0.5"}
    (group,) = Update(odtc.SGD(), [Group("*", options)]).parameter_groups
    assert group.options == {"weight_decay": 0.5, "nesterov": True, "momentum": 0.5}
    assert json.loads(json.dumps(group.options)) == group.options


def test_descriptions_and_schedules_import_no_tvm() -> None:
    code = (
        "import sys, odtc; odtc.Update(odtc.LAMB(), [odtc.Group('*')]); odtc.schedules.Constant(1);"
        "print({m.split('.')[0] for m in sys.modules} & {'tvm', 'tvm_ffi', 'torch'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
