"""Every run of a small quorum, explored breadth first: the promises hold in all of them, or here is
one in which they do not.

`fences` has what can happen to fences, `exclusion` who holds the lock, and `nodes` what a node
does; `search` goes through all states. `variants` lists what is checked: the algorithm as it is,
and wrong ones, each of which must be caught.
"""
