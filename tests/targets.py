"""Targets that tests compile for."""

from dataclasses import replace

from odtc.backends.targets import Target, parse_target


def storage_only() -> Target:
    """This machine without arithmetic in float16, if it has any."""
    host = parse_target("host-cpu").resolved()
    feature = "fullfp16" if host.triple.startswith("aarch64") else "avx512fp16"
    return replace(host, mattr=(*host.mattr, f"-{feature}"))
