"""Targets as data, lowering per target, linking, and the checks on what was linked."""
