"""The points of a curve that grows: as many as a chart shows, however long a run is."""

# A terminal has fewer columns than half of that.
_MOST = 1024
# Step, value, and how much that counts.
_Point = tuple[float, float, float]


class Points:
    """Values by step, of which neighbours become their mean where there are too many."""

    def __init__(self) -> None:
        self._held: list[_Point] = []
        self._open: list[_Point] = []
        self._each = 1

    def add(self, step: float, value: float, weight: float = 1.0) -> None:
        """Adds a value; steps do not fall. One that counts for nothing is left out."""
        if weight:
            self._open.append((step, value, weight))
        if len(self._open) >= self._each:
            self._held.append(_mean(self._open))
            self._open = []
        if len(self._held) >= _MOST:
            pairs = zip(self._held[::2], self._held[1::2], strict=True)
            self._held = [_mean(list(pair)) for pair in pairs]
            self._each *= 2

    def shown(self) -> list[tuple[float, float]]:
        """The points, those that are not full yet too."""
        held = [*self._held, *([_mean(self._open)] if self._open else [])]
        return [(step, value) for step, value, _ in held]


def _mean(points: list[_Point]) -> _Point:
    weight = sum(each for _, _, each in points)
    value = sum(each * value for _, value, each in points) / weight
    return sum(step for step, _, _ in points) / len(points), value, weight
