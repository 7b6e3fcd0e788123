"""Tuning records that ship with odtc: a folder for each target; see README.md."""
