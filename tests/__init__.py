"""The tests mirror the folders; `reference` holds the trainers that odtc is checked against."""
