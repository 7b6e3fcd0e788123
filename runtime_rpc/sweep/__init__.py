"""A sweep: a step measured with many choices of cores, threads, batch and frequency, in turns."""
