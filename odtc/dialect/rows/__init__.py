"""Operators on rows: along one axis, or the last ones."""
