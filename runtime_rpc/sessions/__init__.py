"""Where a step can run: this process, or a device behind a tracker."""
