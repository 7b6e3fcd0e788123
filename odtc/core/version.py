"""The version of odtc, for layers that may not import its face."""

import time

VERSION = "0.2.0"

# It is imported before all else of this package: files that are younger are not what this process
# has loaded.
LOADED_NS = time.time_ns()
