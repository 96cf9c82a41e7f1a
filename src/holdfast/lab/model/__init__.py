"""Every run of a small world, explored breadth first: a promise holds in all, or here is how not.

`tokens` has no time in it and checks the order of fencing tokens. `leases` has a clock that ticks
and checks that one client at a time believes that it has the lock. `variants` lists what is
checked: the algorithms as they are, and wrong ones, each of which must be caught.
"""
