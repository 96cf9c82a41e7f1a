"""Planted bugs, which the tests must find: `make mutants`.

`planted.py` has the list. Each bug is a small change of one place in `src/holdfast`, with the tests
that must fail on it. A change that no longer applies to exactly one place is an error: write it
anew for the code as it is now.
"""
