"""The options of a step: one table, which Python, the command line and the step cache follow."""
