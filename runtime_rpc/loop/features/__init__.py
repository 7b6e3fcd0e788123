"""What frozen layers make of samples, computed once and kept for the steps of a run."""
