"""What is given in Python: frames, datasets, loaders, streams, and batches by name."""
