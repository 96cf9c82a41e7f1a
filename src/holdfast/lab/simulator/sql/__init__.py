"""A virtual PostgreSQL, and the store of a client over it."""
