"""A soak: clients contend for locks over five nodes for a long time, under one fault after another.

client.py    one client, in a process of its own: acquires locks, writes under them, releases them
register.py  what they write to; it judges fences
journal.py   what happened so far
ground.py    all of it together: nodes, networks, clients, registers, and what happened
faults.py    what is done to them
campaign.py  when, and to whom
verdict.py   what came of it: the checkers' findings, and numbers

`python -m tests.equipment.soak --seconds 60`, or `make soak MINUTES=10`.
"""
