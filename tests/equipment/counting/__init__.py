"""Processes that count in registers under one lock, and are stopped for too long while they do.

Jepsen's shape for locks: 5 clients, a ttl of 2 s, and every 5 s the one that holds the lock is
stopped until others have had it. Two registers are counted in at once: `plain` takes every write,
and loses counts; `fenced` rejects late writes, and loses none.
"""
