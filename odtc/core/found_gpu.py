"""What a GPU says of itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FoundGpu:
    """A GPU, as its driver describes it.

    Attributes:
        name: of the device.
        driver: with its version.
    """

    name: str
    driver: str
