"""The classic failures of distributed locks, each to be run on real servers.

scenario.py   what a scenario is: a story, its variants, and what should come of each
catalogue.py  all of them; each has a file of its own, which reads like the story
stage.py      the servers, clients and registers of one telling, and what happened
nodes.py      servers with names, and the network between a client and them
actors.py     clients that are told what to do; `worker.py` is the process of each
locks.py      the locks that are tried: holdfast's own, and careless ones
register.py   what the lock is to protect
judges.py     what a run is judged by
sentences.py  each event in words
"""
