"""The parts of an artifact, and how they belong together."""
