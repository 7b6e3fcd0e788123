"""What adapters are to take, at most."""

# Of PyTorch's without checkpointing: of its time, and of its memory over a base of 4 bits.
STEP_GOAL, MEMORY_GOAL = 0.7, 0.25
