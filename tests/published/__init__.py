"""Model files as others publish and export them: what odtc makes of each."""
