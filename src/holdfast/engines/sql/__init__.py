"""Locks in a table of an SQL database.

`scripts.py` knows what to say, for every dialect; a dialect brings its SQL and a store that says it.
"""
