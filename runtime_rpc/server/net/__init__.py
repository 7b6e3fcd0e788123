"""Connections of the server: who connects, what they may take, and what is sent."""
