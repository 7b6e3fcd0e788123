"""Sizes and times of odtc-device beside their bounds: `python -m tests.device.bounds`."""
