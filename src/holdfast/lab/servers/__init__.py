"""Real servers on free loopback ports, to be frozen, killed and restarted.

process.py   one server process: its port, its folder, how it starts and ends
programs.py  where the servers' programs are
redis.py     a Redis or Valkey server; `resp.py` sends commands to it
postgres.py  a PostgreSQL server
"""
