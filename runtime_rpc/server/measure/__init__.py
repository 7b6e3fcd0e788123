"""What a process on a device measures: its state, its calls, its GPU's clock."""
