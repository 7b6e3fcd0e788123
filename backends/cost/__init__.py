"""How long calls take: measured, or by a model of the machine."""
