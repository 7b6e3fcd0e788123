"""Limits, failures and interruptions of what runs on a device."""
