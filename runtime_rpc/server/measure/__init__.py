"""Measurements by a process on a device: its state, its calls, its GPU's clock."""
