"""Random numbers by a counter-based generator, made where they are used, and dropout by it."""
