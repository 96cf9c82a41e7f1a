"""Real servers on free loopback ports, to be frozen, killed and restarted.

process.py       one server process: its port, its folder, its life and its end
launch.py        how it is started, so that it does not outlive us; `ports.py` has the ports
programs.py      where the servers' programs are
certificates.py  a throw-away authority, and the certificate of a server
patience.py      waiting for a server to come to a state
redis.py         a Redis or Valkey server; `resp.py` sends commands to it
postgres.py      a PostgreSQL server
"""
