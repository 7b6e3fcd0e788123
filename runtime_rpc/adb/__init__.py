"""Phones behind adb: what they are, and the server on them."""
