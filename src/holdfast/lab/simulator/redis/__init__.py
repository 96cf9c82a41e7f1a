"""A virtual Redis, and the store of a client over it."""
