"""From a built step to an artifact: what is said of it, its manifest, its members."""
