"""The pipeline of a target and a step: a table for each phase, and what passes are made with."""
