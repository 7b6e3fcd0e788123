"""Masks of dropout by numpy: Philox4x32-10 as its paper writes it, apart from the kernel."""

import math

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Random words uint32 `[4, n]` for counters `[4, n]`."""
    words = [np.asarray(word, np.uint64) for word in counter]
    low, high = key
    for _ in range(10):
        left = words[0] * np.uint64(0xD2511F53)
        right = words[2] * np.uint64(0xCD9E8D57)
        words = [
            (right >> np.uint64(32)) ^ words[1] ^ np.uint64(low),
            right & _LOW,
            (left >> np.uint64(32)) ^ words[3] ^ np.uint64(high),
            left & _LOW,
        ]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words).astype(np.uint32)


def mask(shape: tuple[int, ...], ratio: float, stream: int, step: int, seed: int) -> np.ndarray:
    """Returns dropout's factor in float64: zero, or one over the share that is kept."""
    size = math.prod(shape)
    calls = np.arange(-(-size // 4))
    counter = np.stack(np.broadcast_arrays(calls, step, stream, 0))
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:size]
    return (words >= round(ratio * 2**32)).reshape(shape) / (1 - ratio)
