"""Connections of the server: accepting, limits, and the protocol."""
