"""The choice of what is trained, and how: parameters by name, adapters for it, the update."""

from collections.abc import Sequence
from dataclasses import replace

from odtc.core.adapters import Adapter
from odtc.core.errors import UsageError
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.graph import Graph
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import Update, as_update
from odtc.frontend.trained.choices import read_choice
from odtc.frontend.trained.lora import adapt, parse_lora
from odtc.frontend.trained.selection import Selection, select


def wanted(options: StepOptions) -> tuple[Sequence[str], Sequence[str]]:
    """The choice of trained and frozen parameters, as text."""
    train = options.train
    if train is None:
        train = "*" if options.lora is None else ()
    wanted, frozen = (
        (given,) if isinstance(given, str) else given for given in (train, options.freeze)
    )
    return wanted, frozen


def update_of(options: StepOptions) -> Update:
    """The update: plain SGD where no other is asked for."""
    return as_update(SGD() if options.optimizer is None else options.optimizer)


def choose(graph: Graph, options: StepOptions) -> tuple[Selection, tuple[Adapter, ...]]:
    """The trained parameters, and the adapters that were added to the graph for it.

    Raises:
        UsageError: nothing would be trained, or a choice is of nothing that the graph has.
    """
    lora = parse_lora(options.lora) if isinstance(options.lora, str) else options.lora
    train, frozen = wanted(options)
    if not train and not lora:
        raise UsageError(
            "train is an empty list: nothing would be trained",
            where="train",
            hint="give what to train, such as 'fc*'; leave it out to train all",
        )
    if lora and options.train is None:
        train = _new_head(graph, frozen)
    selection = select(graph, train, frozen, options.freeze_batch_norm)
    if lora and options.train is None:
        # They may be of the new head, which `train` leaves out then.
        idle = [text for text in selection.idle_freezes if not _is_of_new_head(graph, text)]
        selection = replace(selection, idle_freezes=tuple(idle))
    return adapt(graph, lora, selection) if lora else (selection, ())


def _is_of_new_head(graph: Graph, text: str) -> bool:
    """Whether a choice has parameters of a head that is new."""
    return not {*graph.new_head}.isdisjoint(read_choice(text).parts(graph))


def _new_head(graph: Graph, frozen: Sequence[str]) -> list[str]:
    """The parameters of a head that is new, but for those that are to be frozen; a note says so."""
    still = {name for text in frozen for name in read_choice(text).parts(graph)}
    names = [name for name in graph.new_head if name not in still]
    if names:
        graph.notes.append(
            f"LoRA: {' and '.join(names)} train in addition to the adapters, as the head is new; "
            "--freeze leaves it as it is"
        )
    return names
