"""The method `fit` of a trainer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from odtc.core.elsewhere.names import TRAINER
from odtc.core.elsewhere.rows import check_set, no_attribute
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import (
    ANYTHING,
    FLAG,
    FUNCTION,
    NUMBER,
    PATH,
    TEXT,
    Kind,
    optional,
    several,
    whole_from,
)
from odtc.core.options.trainer_kinds import READ
from odtc.runtime_rpc.feed.calling import NO_RATE

if TYPE_CHECKING:
    from odtc.runtime_rpc.loop.callback import Callback
    from odtc.runtime_rpc.loop.history import History
    from odtc.runtime_rpc.loop.rates.curve import RateCurve
    from odtc.runtime_rpc.loop.trained import Trained

# Of a trainer; what is set beside them is an error.
_ATTRIBUTES = ("history", "progress", "run", "session", "steps", "target")
_COUNT: Kind = optional(whole_from(1))
_NAMES = several(TEXT, "list of names", "give a list, such as ['flip', 'crop{pixels=4}']")
_SCHEDULE = (
    "give what makes one of the learning rate and the number of updates, such as "
    "schedule=odtc.schedules.Cosine; text is read by lambda lr, updates: "
    "odtc.schedules.parse_schedule('cosine', lr, updates)"
)
_CALLBACKS = several(ANYTHING, "list of callbacks", "give a list, such as [odtc.EarlyStopping()]")


class Fitter:
    """A trainer's loop over data."""

    # Whether fit is at work, which counts the steps of the adapter that it began with.
    _in_run = False

    def __getattr__(self, name: str) -> Any:
        raise no_attribute(self, name, TRAINER)

    def __setattr__(self, name: str, value: object) -> None:
        check_set(self, name, _ATTRIBUTES, TRAINER)
        super().__setattr__(name, value)

    @takes(
        "trainer.fit",
        "; inputs and labels are one argument: fit((x, y), lr=0.05)",
        data=ANYTHING,
        lr=ANYTHING,
        epochs=_COUNT,
        steps=_COUNT,
        validation=ANYTHING,
        metrics=ANYTHING,
        callbacks=_CALLBACKS,
        schedule=optional(FUNCTION.with_hint(_SCHEDULE)),
        validate_every=_COUNT,
        resume=optional(PATH),
        seed=whole_from(0),
        steps_per_call=whole_from(1),
        ema=FLAG,
        augment=_NAMES,
        feature_cache=ANYTHING,
        **READ,
    )
    def fit(  # noqa: PLR0913 - one keyword for each choice of the user
        self,
        data: Any,
        *,
        lr: float | Callable[[int], float] = NO_RATE,
        epochs: int | None = None,
        steps: int | None = None,
        validation: Any = None,
        metrics: Any = (),
        callbacks: "Sequence[Callback | Callable[[dict[str, float]], object]]" = (),
        schedule: Callable[[float, int], Callable[[int], float]] | None = None,
        validate_every: int | None = None,
        resume: str | None = None,
        seed: int = 0,
        steps_per_call: int = 1,
        ema: bool = False,
        augment: Sequence[str] = (),
        tokenizer: str | None = None,
        end_token: str | None = None,
        pack: bool = False,
        skip_broken: bool = False,
        feature_cache: int | str = "1GiB",
    ) -> "History":
        """Trains over data, with a validation at the end of each epoch.

            history = trainer.fit("train.npz", lr=0.05, epochs=20, validation="test.npz",
                                  metrics=["accuracy"], callbacks=[odtc.EarlyStopping(patience=3)])

        Args:
            data: a file or a folder, as of `odtc train --data`; a pair of arrays `(x, y)`, a
                mapping `{name: array}` or a DataFrame of pandas, all of whose samples are shuffled
                in each epoch; a Dataset of PyTorch or of Hugging Face, or a list of samples; or
                what gives batches each time that it is gone through, as a DataLoader: pairs, or
                mappings of inputs and labels by name, of any size: they are cut into those of the
                step. An IterableDataset, or a stream of Hugging Face, gives a sample after the
                other. Samples that fill no batch go with the next epoch. Columns of tables are
                taken by the names that a step normalises, or that the run before had in another
                order; those of later batches by the names of the first.
                Labels may be names of classes. Of a language model also a list, or a Dataset, of
                texts or of mappings as lines of such a file hold.
            lr: the learning rate, or a schedule, as of `train`; of the updates of this run.
            epochs: passes over the data; one by default.
            steps: in all, in place of epochs.
            validation: data as above, which is evaluated and not trained: `val_loss`, the loss as
                of all samples in one batch, and the metrics.
            metrics: names such as `accuracy`, `top-k{k=5}`, `mse`, `mae`, `r2`, `f1`, `iou` and
                `perplexity`, which a language model has anyway, or functions of all outputs and
                all labels.
            callbacks: `odtc.Callback` objects, such as `odtc.EarlyStopping`, `odtc.Checkpoint` and
                `odtc.BestCheckpoint`; a function gets the row of each epoch.
            schedule: makes the schedule, of `lr` and the number of updates of the run, as
                `odtc.schedules.Cosine` does.
            validate_every: steps from one validation to the next, beside those of epochs.
            resume: a checkpoint of `odtc.Checkpoint`, from which the run goes on with the same
                arguments, to the same bits; where there is none yet it begins, with a warning. Of
                several adapters the one that `set_adapter` has set goes on.
            seed: of the samples' order.
            steps_per_call: as of `train`.
            augment: what is done to images before a step, drawn from the seed and its number:
                names such as `flip`, `crop{pixels=4}`, `jitter{share=0.2}`, `mixup{alpha=0.2}`.
            tokenizer: of a language model, where the data is text: its `tokenizer.json`, or the
                folder that has one.
            end_token: the token that ends a document, such as `</s>`; none is added without.
            pack: whether rows hold several documents; otherwise one each, filled up.
            skip_broken: whether images of a folder that cannot be read are left out, of all data of
                the run; a warning names them. Without it they are an error.
            ema: whether validations take the moving averages of the weights.
            feature_cache: bytes that may be kept of what frozen layers make of samples, as a number
                or text such as `64MiB`; 0 for none. Where the first layers are frozen, and samples
                are the same in each epoch, these layers run once for each sample; losses are the
                same, to the bit. A warning says what was done, or why not.

        Returns:
            What was measured, a row each epoch and each validation between. It is
            `trainer.history`, too, also where an interrupt (Ctrl-C) or an error ends the run.

        Raises:
            DataError: the data cannot be read, or do not fit the step.
            UsageError: arguments do not go together, or a metric not with the labels; a
                checkpoint has not the adapter that is set, or a callback would replace one of
                several adapters without some of them.
            NumericError: as of `step`.
            ArtifactError: the checkpoint is damaged, or of another model.
            OutputError: a checkpoint or a log cannot be written.
            DeviceError: the device failed.
        """
        from odtc.runtime_rpc.loop.fit import Asked, fit, read_options

        asked = Asked(
            data,
            lr,
            epochs,
            steps,
            validation,
            metrics,
            callbacks,
            schedule,
            validate_every,
            resume,
            seed,
            steps_per_call,
            ema,
            augment,
            read_options(tokenizer, end_token, pack=pack, skip_broken=skip_broken),
            feature_cache,
        )
        before, self._in_run = self._in_run, True
        try:
            return fit(cast("Trained", self), asked)
        finally:
            self._in_run = before

    @takes(
        "trainer.find_learning_rate",
        data=ANYTHING,
        lowest=NUMBER,
        highest=NUMBER,
        points=whole_from(2),
        seed=whole_from(0),
        steps_per_call=whole_from(1),
        augment=_NAMES,
        **READ,
    )
    def find_learning_rate(  # noqa: PLR0913 - one keyword for each choice of the user
        self,
        data: Any,
        *,
        lowest: float = 1e-7,
        highest: float = 10.0,
        points: int = 100,
        seed: int = 0,
        steps_per_call: int = 1,
        augment: Sequence[str] = (),
        tokenizer: str | None = None,
        end_token: str | None = None,
        pack: bool = False,
        skip_broken: bool = False,
    ) -> "RateCurve":
        """Tries learning rates from small to large, an update each, and suggests one.

            curve = trainer.find_learning_rate("train.npz")
            print(curve)
            trainer.fit("train.npz", lr=curve.suggestion, epochs=20)

        It is the range test of Smith, "Cyclical Learning Rates for Training Neural Networks", 2017,
        with the rate at which the loss falls steepest. Nothing of it is left: weights, statistics,
        the optimizer's state and the steps are those of before, to the bit.

        Args:
            data: as of `fit`.
            lowest: the first learning rate, above 0.
            highest: the last one; the test ends before it where the loss has grown to several times
                the least.
            points: how many there are; each is the one before times the same factor.
            seed: as of `fit`.
            steps_per_call: as of `train`.
            augment: as of `fit`.
            tokenizer: as of `fit`.
            end_token: as of `fit`.
            pack: as of `fit`.
            skip_broken: as of `fit`.

        Returns:
            The rates with their losses, and the suggestion; printed, a chart.

        Raises:
            OdtcError: as of `fit`; the trainer is as it was before, but where a device was lost.
        """
        from odtc.runtime_rpc.loop.fit import feed_of, read_options
        from odtc.runtime_rpc.loop.history import column_names_of
        from odtc.runtime_rpc.loop.rates.range_test import RangeTest

        test, trainer = RangeTest(lowest, highest, points), cast("Trained", self)
        options = read_options(tokenizer, end_token, pack=pack, skip_broken=skip_broken)
        before = column_names_of(trainer.progress)
        feed = feed_of(data, seed, augment, options, trainer, before)
        return test.run(trainer, feed, steps_per_call)
