"""Whether a step may run as several micro-batches: what it computes must be a mean over samples."""
