"""From planned modules to the shared library: compiled, kept, linked and checked."""
