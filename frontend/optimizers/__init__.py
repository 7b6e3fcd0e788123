"""Optimizers, parameter groups and the options of the update; nothing here knows TVM."""
