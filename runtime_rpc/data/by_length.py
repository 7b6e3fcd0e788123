"""The order of samples that differ in length: batches of one length each, as far as there are."""

import numpy as np


def by_length(order: np.ndarray, at: np.ndarray, batch: int, seed: int, epoch: int) -> np.ndarray:
    """An order of samples whose batches are each of one length, in an order that is drawn.

    Args:
        order: of all samples, in an epoch.
        at: the length of each, by its number.
        batch: samples of a step.
        seed: of the run.
        epoch: its number; batches go on over the ends of epochs.
    """
    if len({*at.tolist()}) < 2:
        return order
    # The first ones fill the batch that the epoch before has begun.
    before = epoch * len(order) % batch
    head, rest = np.split(order, [-before % batch])
    of = at[rest]
    alike = [rest[of == length] for length in sorted({*at.tolist()})]
    whole = [len(each) - len(each) % batch for each in alike]
    batches = [
        part
        for each, end in zip(alike, whole, strict=True)
        for part in each[:end].reshape(-1, batch)
    ]
    # What is left of each length: neighbours are the most alike.
    left = np.concatenate([each[end:] for each, end in zip(alike, whole, strict=True)])
    end = len(left) - len(left) % batch
    batches += [*left[:end].reshape(-1, batch)]
    drawn = np.random.default_rng([seed, epoch, batch]).permutation(len(batches))
    return np.concatenate([head, *(batches[n] for n in drawn), left[end:]])


def note_of_lengths(where: str, at: np.ndarray) -> str:
    """What is said of samples of several lengths; empty where there is one."""
    lengths, counts = np.unique(at, return_counts=True)
    told = ", ".join(f"{count} at {length}" for length, count in zip(lengths, counts, strict=True))
    if len(lengths) < 2:
        return ""
    return (
        f"{where}: samples by length: {told}; batches are of one length each, and what is left of "
        "each length is filled up"
    )
