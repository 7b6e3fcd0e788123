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
            data: training data. A file or a folder, as for `odtc train --data`; a pair of arrays
                `(x, y)`, a mapping `{name: array}` or a pandas DataFrame, whose samples are
                shuffled in each epoch; a PyTorch or Hugging Face Dataset, or a list of samples; or
                an iterable of batches that can be repeated, such as a DataLoader: pairs, or
                mappings of inputs and labels by name, of any size, which are regrouped into batches
                of the step. An IterableDataset, or a Hugging Face stream, yields one sample after
                the other. Samples that do not fill a batch are carried over to the next epoch.
                Columns of tables are selected by the names that the step normalises, or that the
                previous run had in another order; those of later batches by the names of the first.
                Labels may be names of classes. For a language model, data can also be a list or a
                Dataset of texts, or of mappings like the lines of a JSON Lines file.
            lr: learning rate, or a schedule as for `train`, over the updates of this run.
            epochs: number of passes over the data; one by default.
            steps: total number of steps, instead of `epochs`.
            validation: data as above, on which to measure `val_loss`, the loss of all samples as
                one batch, and the metrics.
            metrics: names such as `accuracy`, `top-k{k=5}`, `mse`, `mae`, `r2`, `f1`, `iou` and
                `perplexity`, which is always measured for a language model, or functions of all
                outputs and all labels.
            callbacks: `odtc.Callback` objects, such as `odtc.EarlyStopping`, `odtc.Checkpoint` and
                `odtc.BestCheckpoint`; a function is called with the row of each epoch.
            schedule: function that makes the schedule from `lr` and the number of updates of the
                run, such as `odtc.schedules.Cosine`.
            validate_every: number of steps from one validation to the next, in addition to that of
                each epoch.
            resume: path of an `odtc.Checkpoint` from which the run continues with the same
                arguments, to the same bits; if there is none yet, the run begins, with a warning.
                With several adapters, the one chosen by `set_adapter` continues.
            seed: seed of the sample order.
            steps_per_call: as for `train`.
            augment: image augmentations, drawn from the seed and the number of the step: names such
                as `flip`, `crop{pixels=4}`, `jitter{share=0.2}`, `mixup{alpha=0.2}`.
            tokenizer: `tokenizer.json` of a language model, or the folder that has one, if the data
                is text.
            end_token: token to append to each document, such as `</s>`; none by default.
            pack: whether rows hold several documents; otherwise each holds one, padded.
            skip_broken: whether to skip images of a folder that cannot be read, in all data of the
                run; a warning names them. By default they are an error.
            ema: whether validations use the moving averages of the weights.
            feature_cache: size in bytes of the cache for outputs of frozen layers, as a number or
                text such as `64MiB`; 0 for no cache. If the first layers are frozen, and samples
                are the same in each epoch, these layers run once per sample; losses are the same,
                to the bit. A warning says what was cached, or why nothing was.

        Returns:
            What was measured, a row for each epoch and each validation within it. It is also kept
            as `trainer.history`, even if an interrupt (Ctrl-C) or an error ends the run.

        Raises:
            DataError: the data cannot be read, or does not fit the step.
            UsageError: arguments cannot be combined, or a metric does not fit the labels; the
                checkpoint does not have the current adapter, or a callback would replace a
                checkpoint of several adapters with one that lacks some of them.
            NumericError: as for `step`.
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
        """Tries learning rates from small to large, one update each, and suggests one.

            curve = trainer.find_learning_rate("train.npz")
            print(curve)
            trainer.fit("train.npz", lr=curve.suggestion, epochs=20)

        This is the range test of Smith, "Cyclical Learning Rates for Training Neural Networks",
        2017; the suggestion is the rate at which the loss falls most steeply. Afterwards weights,
        statistics, the optimizer's state and the step count are as before, to the bit.

        Args:
            data: as for `fit`.
            lowest: first learning rate, above 0.
            highest: last learning rate; the test ends earlier if the loss grows to several times
                its minimum.
            points: number of learning rates, evenly spaced on a logarithmic scale.
            seed: as for `fit`.
            steps_per_call: as for `train`.
            augment: as for `fit`.
            tokenizer: as for `fit`.
            end_token: as for `fit`.
            pack: as for `fit`.
            skip_broken: as for `fit`.

        Returns:
            The rates with their losses, and the suggestion; prints as a chart.

        Raises:
            OdtcError: as for `fit`; the trainer is as before, unless a device was lost.
        """
        from odtc.runtime_rpc.loop.fit import feed_of, read_options
        from odtc.runtime_rpc.loop.history import column_names_of
        from odtc.runtime_rpc.loop.rates.range_test import RangeTest

        test, trainer = RangeTest(lowest, highest, points), cast("Trained", self)
        options = read_options(tokenizer, end_token, pack=pack, skip_broken=skip_broken)
        before = column_names_of(trainer.progress)
        feed = feed_of(data, seed, augment, options, trainer, before)
        return test.run(trainer, feed, steps_per_call)
