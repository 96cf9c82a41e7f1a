"""Locks in a table of an SQL database.

`commands.py` has the commands of every dialect; a dialect has its SQL, and a store that sends it.
"""
