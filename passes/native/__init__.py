"""The inner loops of memory plans in C++, for where there is a compiler; see `library.py`."""
