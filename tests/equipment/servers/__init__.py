"""Real servers for tests, beyond those that `holdfast lab` starts: see `holdfast.lab.servers`."""
