"""Commands that look at a model or an artifact, and that make another model of one."""
