"""Checks, converts and sends what callers feed a step."""
