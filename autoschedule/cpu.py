"""Schedules of CPU kernels, by rule and without tuning."""

from odtc.backends.targets import Target
from odtc.passes.contract import Pass


def schedule_passes(target: Target) -> tuple[Pass, ...]:
    return ()
