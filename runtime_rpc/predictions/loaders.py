"""What a DataLoader does that predictions do not show: its order, and samples that it leaves out.

Nobody would know whose predictions they are. Loaders are known by what they have: PyTorch need not
be imported.
"""

from typing import Any

from odtc.runtime_rpc.data.objects.streams import is_stream

_IN_ORDER, _SHUFFLED, _PLAIN = "SequentialSampler", "RandomSampler", "BatchSampler"
_ORDER = "predictions are in the order in which it gives samples, and not in that of its dataset"


def note_of_order(loader: Any) -> str:
    """What is said of a loader that draws or chooses an order; empty of others."""
    batches = getattr(loader, "batch_sampler", None)
    sampler = getattr(batches, "sampler", getattr(loader, "sampler", None))
    # What makes batches by itself has a sampler that nobody asks.
    told = type(sampler).__name__ if type(batches).__name__ == _PLAIN else type(batches).__name__
    if batches is None or _samples_of(loader) is None or told == _IN_ORDER:
        return ""
    if told == _SHUFFLED:
        return f"the loader shuffles: {_ORDER}; give shuffle=False"
    return f"the loader goes by a {told}: {_ORDER}, if that is another"


def note_of_left(loader: Any, given: int) -> str:
    """What is said of samples of the dataset that a pass did not give; empty where all came.

    Args:
        loader: any.
        given: the samples that came in the pass.
    """
    batches = getattr(loader, "batch_sampler", None)
    drops = getattr(loader if batches is None else batches, "drop_last", False)
    samples = _samples_of(loader)
    if samples is None or batches is None:
        return (
            "the loader has drop_last=True: samples that fill no batch have no prediction; give "
            "drop_last=False"
            if drops is True
            else ""
        )
    left = samples - given
    if left <= 0:
        return ""
    why = "it has drop_last=True; give drop_last=False" if drops is True else "it leaves them out"
    return f"{left} of {samples} samples of the loader's dataset have no prediction: {why}"


def _samples_of(loader: Any) -> int | None:
    """Samples of a loader's dataset; None where it does not say."""
    dataset = getattr(loader, "dataset", None)
    # One that is gone through may say a length that is not what it gives.
    if dataset is None or is_stream(dataset):
        return None
    try:
        return len(dataset)
    except TypeError:
        return None
