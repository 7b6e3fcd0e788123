"""What is measured of a step and of its machine, and how it is told."""
