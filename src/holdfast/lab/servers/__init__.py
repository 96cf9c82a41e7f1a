"""Real servers on free loopback ports, and what can happen to them.

process.py   one server process: its port, its folder; freeze, kill, restart
programs.py  where the servers' programs are
redis.py     a Redis or Valkey server; `resp.py` sends commands to it
proxy.py     faults of the network between a client and a server; `wire.py` carries the bytes
clock.py     a wall clock of one server that can jump; `clock.c` is preloaded into it
"""
