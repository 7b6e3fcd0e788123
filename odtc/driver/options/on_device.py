"""The device that a step is for, by its URL."""

from dataclasses import replace

from odtc.backends.targets import Target
from odtc.driver.options.step_options import StepOptions


def on_device(options: StepOptions, target: Target) -> StepOptions:
    """The options with a device in place of its URL.

    Raises:
        UsageError: the URL has another form.
        DeviceError: there is no such device, or it has none of the target's kind.
    """
    if not isinstance(options.device, str):
        return options
    # It brings TVM.
    from odtc.tuner.tuning import device_at

    return replace(options, device=device_at(options.device, target.resolved()))
