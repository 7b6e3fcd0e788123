"""Losses as text: every option is read and written, and what is wrong is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odtc
from odtc.core.errors import ModelError, UsageError
from odtc.core.specs import TensorSpec
from odtc.frontend.losses.loss import Loss
from odtc.frontend.losses.terms import Losses, parse_terms, terms_of, terms_text
from odtc.frontend.losses.text import LOSSES, loss_text, parse_loss

factors = st.none() | st.lists(st.floats(0.125, 8), min_size=1, max_size=4).map(tuple)
reductions = st.sampled_from(["mean", "sum"])
positive = st.floats(1e-3, 1e3)
ignored = st.none() | st.integers(-200, 200)
losses = st.one_of(
    st.builds(
        odtc.CrossEntropy,
        label_smoothing=st.floats(0, 1),
        ignore_index=ignored,
        weight=factors,
        axis=st.integers(-4, 4),
        reduction=reductions,
    ),
    st.builds(odtc.CrossEntropy, soft_labels=st.booleans()),
    st.builds(odtc.NLL, ignored, factors, st.integers(-4, 4), reductions),
    st.builds(odtc.BCEWithLogits, factors, reductions),
    st.builds(odtc.MSE, reductions),
    st.builds(odtc.L1, reductions),
    st.builds(odtc.Huber, positive, reductions),
    st.builds(odtc.SmoothL1, positive, reductions),
    st.builds(odtc.KLDiv, st.booleans(), st.sampled_from(["batchmean", "mean", "sum"])),
    st.builds(odtc.InModel),
)


@given(losses)
def test_text_reads_back(loss: Loss) -> None:
    assert parse_loss(loss_text(loss)) == loss


@given(
    st.dictionaries(
        st.text("abc/:=*{}.0_ ", min_size=1).map(lambda text: f"o{text}o"),
        st.tuples(st.floats(1e-3, 1e3), losses),
        min_size=1,
        max_size=3,
    )
)
def test_terms_read_back(given_terms: dict[str, tuple[float, Loss]]) -> None:
    terms = terms_of(given_terms)
    assert parse_terms([str(term) for term in terms]) == terms


def test_options_may_be_written_as_in_python() -> None:
    loss = parse_loss("cross-entropy{label_smoothing=0.1,ignore-index=-100,weight=1:0.5}")
    assert loss == odtc.CrossEntropy(label_smoothing=0.1, ignore_index=-100, weight=(1.0, 0.5))
    assert terms_text(terms_of(loss)) == (
        "cross-entropy{label-smoothing=0.1,ignore-index=-100,weight=1.0:0.5}"
    )


def test_every_loss_is_read_by_its_name() -> None:
    assert all(loss_text(parse_loss(name)) == name for name in LOSSES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hinge", "unknown loss 'hinge'"),
        ("mse{", "cannot read the loss"),
        ("mse{delta=1}", "the loss mse has no option 'delta'"),
        ("in-model{reduction=sum}", "the loss in-model has no option 'reduction'"),
        ("huber{delta=wide}", "option delta is 'wide', which is not a number"),
        ("huber{delta=0}", "the loss huber: delta 0.0 is not a number above 0"),
        ("huber{delta=nan}", "delta nan is not a number above 0"),
        ("smooth-l1{beta=-1}", "beta -1.0 is not a number above 0"),
        ("nll{ignore-index=x}", "which is not a whole number"),
        ("kl-div{log-target=yes}", "which is not true or false"),
        ("mse{reduction=none}", "reduction 'none' is not one of: mean, sum"),
        ("cross-entropy{label-smoothing=1.5}", r"1.5 is outside \[0, 1\]"),
        ("cross-entropy{weight=1:x}", "which is not numbers with colons between them"),
        ("huber{delta=1e39}", r"delta 1e\+39 is not a number above 0 in float32"),
        ("smooth-l1{beta=1e-46}", "beta 1e-46 is not a number above 0 in float32"),
        ("cross-entropy{weight=1:1e39}", r"weight 1e\+39 is not a number of at least 0 in float32"),
        ("a=1e39*mse", r"the weight 1e\+39 of the loss on 'a' is not a number above 0 in float32"),
        ("cross-entropy{weight=1:-1}", "weight -1.0 is not a number of at least 0"),
        ("cross-entropy{weight=0:0}", r"weight \[0.0, 0.0\] has no number above 0"),
        ("cross-entropy{soft-labels=true,ignore-index=0}", "ignore_index needs class numbers"),
        ("a=0*mse", "the weight 0.0 of the loss on 'a' is not a number above 0"),
        ("a=nan*mse", "unknown loss|cannot read"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_terms([text])


@pytest.mark.parametrize(
    ("given_losses", "problem"),
    [
        ({}, "no loss is given"),
        ({"a": "mse", "b": "my.onnx"}, "the loss of the whole model"),
        ({"a": (float("inf"), "mse")}, "the weight inf"),
    ],
)
def test_losses_that_do_not_go_together(given_losses: Losses, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        terms_of(given_losses)


def test_several_losses_need_their_outputs() -> None:
    with pytest.raises(UsageError, match="each needs an output"):
        parse_terms(["mse", "l1"])
    with pytest.raises(UsageError, match="the output 'a' has two losses"):
        parse_terms(["a=mse", "a=l1"])


@pytest.mark.parametrize(
    ("loss", "shape", "problem"),
    [
        (odtc.CrossEntropy(weight=(1.0, 2.0)), (4, 3), "2 class weights; .* has 3 classes"),
        (odtc.CrossEntropy(axis=0), (4, 3), "along axis 0 does not fit"),
        (odtc.CrossEntropy(axis=-2), (4, 3), "along axis -2 does not fit"),
        (odtc.NLL(axis=2), (4, 3), "along axis 2 does not fit"),
        (odtc.NLL(), (4,), r"needs a float32 output \[batch, classes\]"),
        (odtc.BCEWithLogits(pos_weight=(1.0, 2.0)), (4, 3), "pos_weight has 2 numbers"),
        (odtc.MSE(), (), r"mse needs a float32 output \[batch, ...\]"),
    ],
)
def test_losses_that_do_not_fit_the_output(loss: Loss, shape: tuple, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        loss.label(TensorSpec("y", shape))


def test_labels_have_the_shape_without_the_class_axis() -> None:
    def label(shape: tuple[int, ...], axis: int = 1) -> tuple[int, ...]:
        found = odtc.CrossEntropy(axis=axis).label(TensorSpec("y", shape))
        return found.shape

    assert label((4, 3)) == (4,)
    assert label((4, 3, 1, 1)) == (4,)
    assert label((4, 3, 5, 6)) == (4, 5, 6)
    assert label((4, 7, 3), axis=-1) == (4, 7)
    assert odtc.CrossEntropy(soft_labels=True).label(TensorSpec("y", (4, 3))).shape == (4, 3)
