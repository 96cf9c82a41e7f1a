"""Real servers on free loopback ports, and what can happen to them.

process.py  one server process: its program, its port, its folder; freeze, kill, restart
redis.py    a Redis or Valkey server, and a connection to it
link.py     the network between a client and a server, which can be cut
clock.py    a wall clock of one server that can jump; `clock.c` is preloaded into it
"""
