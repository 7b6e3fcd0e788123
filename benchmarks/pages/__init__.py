"""`python -m benchmarks.pages` writes the measured figures of the pages from their result files.

A table of figures stands between two marks in README.md or in docs/, and is made of one file in
docs/results:

    <!-- figures: performance/compile_time -->
    <!-- end of figures -->

A benchmark writes such a file (`--figures docs/results/performance/compile_time.json`): its rows,
and of each run the machine, versions, commit, date and command. The last line of a table says
these, and whether kernels have changed since. That is asked of git when the pages are written and
kept in the file, as a page has to come out the same in a clone without history.

`tests/pages/test_figures.py` compares pages and files, and finds tables that were typed by hand.
"""
