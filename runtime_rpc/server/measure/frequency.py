"""Caps the frequency that the governor may choose, where the system allows it."""

from pathlib import Path

# Position of each level in the list of a core's frequencies.
LEVELS = {"low": 0.0, "mid": 0.5, "high": 1.0}
_POLICIES = "sys/devices/system/cpu/cpufreq"
_LIMIT = "scaling_max_freq"
_before: dict[Path, str] = {}


def cap_frequency(level: str, root: str) -> str:
    """Caps the frequency of all cores, until `uncap_frequency`.

    Args:
        level: of `LEVELS`.
        root: of `/sys`.

    Returns:
        The reason why nothing could be changed; '' if it was done.
    """
    policies = sorted(Path(root, _POLICIES).glob("policy*"))
    if not policies:
        return f"no /{_POLICIES}/policy*"
    try:
        steps = {policy: _steps(policy) for policy in policies}
        for policy, choice in steps.items():
            limit = policy / _LIMIT
            _before.setdefault(limit, limit.read_text(encoding="ascii"))
            limit.write_text(str(choice[round(LEVELS[level] * (len(choice) - 1))]), "ascii")
    except (OSError, ValueError) as error:
        uncap_frequency()
        return str(error)
    return ""


def uncap_frequency() -> str:
    """Restores what was changed; always '': the device's file shows the result."""
    while _before:
        limit, text = _before.popitem()
        try:
            limit.write_text(text, encoding="ascii")
        except OSError:
            continue
    return ""


def _steps(policy: Path) -> list[int]:
    """Frequencies of a group of cores, in kHz, rising; without a list its bounds and their mean."""
    listed = policy / "scaling_available_frequencies"
    if listed.exists():
        found = sorted(int(text) for text in listed.read_text(encoding="ascii").split())
        if found:
            return found
    least, most = (
        int((policy / f"cpuinfo_{name}_freq").read_text(encoding="ascii"))
        for name in ("min", "max")
    )
    return [least, (least + most) // 2, most]
