"""The peers: libraries that train, with what each needs to train the model that odtc trains.

None of them is needed by odtc: one that is not installed is a row that says so. Each is imported
in the process that measures it, and nowhere else.
"""
