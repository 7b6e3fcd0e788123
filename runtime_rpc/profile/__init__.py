"""Profiles: the time of training steps by operator, with the state of the device."""
