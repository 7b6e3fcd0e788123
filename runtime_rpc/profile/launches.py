"""What the kernels of a step launch on a GPU, and take of it, as its driver says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from odtc.runtime_rpc.engines.clocked import plain_name
from odtc.runtime_rpc.tracker.told import understood


@dataclass(frozen=True)
class Launch:
    """One launch on a GPU.

    Attributes:
        kernel: its name on the device.
        groups: work-groups along each axis.
        items: work-items of a group along each axis.
        figures: what the driver says of the kernel, by name. Through OpenCL `shared bytes` of a
            group, `private bytes` of an item (where registers do not hold all), `most items` of a
            group, `items at once`. Through Vulkan `shared bytes`, and what the driver calls
            statistics, where it has VK_KHR_pipeline_executable_properties.
    """

    kernel: str
    groups: tuple[int, ...]
    items: tuple[int, ...]
    figures: Mapping[str, float]


# Of each kernel of a step, by the name that a profile has for it.
Launches = Mapping[str, tuple[Launch, ...]]


def parse_launches(text: str, where: str) -> Launches:
    """Reads what the runtime says of kernels.

    Args:
        text: of `odtc_describe_kernels`.
        where: the device, for errors.

    Raises:
        DeviceError: it is malformed.
    """
    with understood("the device", where):
        return {
            plain_name(kernel): tuple(
                Launch(
                    str(each["name"]),
                    tuple(map(int, each["groups"])),
                    tuple(map(int, each["items"])),
                    {str(name): float(value) for name, value in each["figures"].items()},
                )
                for each in launches
            )
            for kernel, launches in json.loads(text).items()
        }
