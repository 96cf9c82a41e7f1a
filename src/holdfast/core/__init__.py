"""The algorithms of a lock, without I/O.

Everything in here is pure. Algorithms are generators that yield *effects* (`effects.py`) and are
sent the results; clock, randomness and holder ids come in through the `Runtime`. A driver performs
the effects: with threads, with asyncio, or in virtual time.
"""
