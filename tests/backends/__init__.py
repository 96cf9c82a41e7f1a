"""Where the contract plays: an empty store of each engine."""
