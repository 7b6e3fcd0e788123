"""Time of a compile: cold, again, and with an option changed; see `__main__`."""
