"""Operators on single elements."""
