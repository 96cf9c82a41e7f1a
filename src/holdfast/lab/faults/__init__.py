"""Faults for real servers on loopback, each to be turned on and off while they run.

proxy.py   what can happen between a client and a server; `wire.py` carries the bytes
clock.py   the wall clock of one server jumps; `clock.c` is preloaded into it
disk.py    the disk of one server is full

To kill, freeze, thaw and restart a server are methods of the server itself: `lab/servers`.
"""
