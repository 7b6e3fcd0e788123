"""How long things with a device may take, in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a session, in seconds.

    Attributes:
        connect: until a tracker or a device answers.
        request: until a device that is in use becomes free.
        run: of one call on the device, such as a step; infinity is without end.
        beat: between two signs of life.
        silence: until a device that gives no sign of life is taken for frozen.
        session: until the device ends the session; it frees a device whose client is frozen.
    """

    connect: float = 5.0
    request: float = 5.0
    run: float = 1800.0
    beat: float = 2.0
    silence: float = 15.0
    session: int = 24 * 3600


DEFAULT = Limits()
