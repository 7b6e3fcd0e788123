"""Step times of odtc and its peers: `python -m benchmarks.step_time`.

All engines train the same weights on the same batch with plain SGD. First their losses over a few
steps are compared; an engine whose losses differ from odtc's is not timed. Then the engines take
turns, A B C A B C, so that what else the machine does falls on all of them alike. A turn is a
pause, in which the worker threads of the engine before go to sleep, one step to warm up, and one
step that is timed. Times are wall times of one step, the copy of the batch included. Raw samples
are kept; medians, quartiles and ratios are derived from them.
"""
