"""The drivers: each performs the effects that `core/` yields, by blocking or by awaiting."""
