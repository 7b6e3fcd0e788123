"""Commands that measure: profiles, sweeps, comparisons, tuning."""
