"""The points of a curve that grows: as many as a chart shows, however long a run is."""

# A terminal has fewer columns than half of that.
_MOST = 1024


class Points:
    """Values by step, of which neighbours become their mean where there are too many."""

    def __init__(self) -> None:
        self._held: list[tuple[float, float]] = []
        self._open: list[tuple[float, float]] = []
        self._each = 1

    def add(self, step: float, value: float) -> None:
        """Adds a value; steps do not fall."""
        self._open.append((step, value))
        if len(self._open) == self._each:
            self._held.append(_mean(self._open))
            self._open = []
        if len(self._held) >= _MOST:
            pairs = zip(self._held[::2], self._held[1::2], strict=True)
            self._held = [_mean(list(pair)) for pair in pairs]
            self._each *= 2

    def shown(self) -> list[tuple[float, float]]:
        """The points, those that are not full yet too."""
        return [*self._held, *([_mean(self._open)] if self._open else [])]


def _mean(points: list[tuple[float, float]]) -> tuple[float, float]:
    steps, values = zip(*points, strict=True)
    return sum(steps) / len(points), sum(values) / len(points)
