"""Every run of a small quorum, explored breadth first: fences hold in all of them, or here is one
in which they do not.

`fences` has what can happen, and goes through all states; `nodes` what a node does. `variants`
lists what is checked: the algorithm as it is, and wrong ones, each of which must be caught.
"""
