"""Locks in a table of an SQL database.

`scripts.py` knows what to say in every dialect; a dialect brings its SQL and a store to say it.
"""
