"""Commands that look at a model or an artifact, or make another model or an app of one."""
