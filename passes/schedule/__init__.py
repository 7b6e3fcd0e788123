"""The order of calls: which run again, what waits in storage, what is written over."""
