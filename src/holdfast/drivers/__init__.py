"""The bodies: each performs what `core/` yields, in its own way."""
