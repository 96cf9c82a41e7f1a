"""The classic failures of distributed locks, each to be run on real servers.

scenario.py   what a scenario is: a story, its variants, and what should come of each
catalogue.py  all of them: `one_server.py`, `quorum.py`; and the demo, which needs no server
stage.py      the servers, network and clients of one run, and what happens there;
              `client_process.py` is the process of each client, with the locks that are tried,
              holdfast's own and two careless ones, and the registers that it writes to
"""
