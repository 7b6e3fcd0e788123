"""`python -m benchmarks.results` measures the figures of README.md and docs/ on one commit.

`benchmarks.results.table` has a row for each file of docs/results: the commands that write it, and
about how long they take, or why nobody but a person can. Each command is a process of its own, and
what it says lies in logs/results. A file replaces the old one when all of its commands have ended
well and the pages can be written from it; until then it lies in build/results.

    python -m benchmarks.results --list         # what there is, how old, how long
    python -m benchmarks.results --readme       # what README.md shows
    python -m benchmarks.results --for 40min    # as much as fits, README.md first, then the oldest
    python -m benchmarks.results                # all of it

What was measured on this machine, and of sources as they are now, is not measured again, but with
`--again`; so the same command goes on where it was interrupted. Figures are of a commit: sources
that differ from it are refused, pages and results may differ.
"""
