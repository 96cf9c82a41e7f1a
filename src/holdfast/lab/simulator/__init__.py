"""The simulator: the algorithms and engines over virtual servers, networks and clocks.

`draw` makes a plan of a seed, `play` runs it, `campaign` does so for many seeds, and `shrink` finds
the smallest part of a plan that still fails. The same plan is the same run, event by event,
on any machine.

What runs is the code of `core/` itself, and what is sent to the servers are the commands of
`engines.redis`, with its own Lua scripts, the calls of `engines.etcd` or `engines.zookeeper`, or
the statements of `engines.sql.postgres`.

plan.py      what clients do and what goes wrong, by seed; `attacks.py` combines `faults.py`
run.py       plays a plan, or many, and shrinks one that fails
driver.py    virtual time, and the algorithms in progress on it
client.py    a client, which performs their effects, and can be paused
network.py   messages: late, held up, lost
server.py    a server that can freeze, crash and restart
store.py     the store of a client: its links to the servers, and what it does over them
redis/  etcd/  zookeeper/  sql/
             the store of each engine, the server and its data, and what runs are like with it
observer.py  checks each step of a turn; `record.py` keeps the history
"""

from holdfast.lab.simulator.plan import Plan, Setup, draw
from holdfast.lab.simulator.run import Run, Tally, breaks, campaign, play, shrink

__all__ = [
    "Plan",
    "Run",
    "Setup",
    "Tally",
    "breaks",
    "campaign",
    "draw",
    "play",
    "shrink",
]
