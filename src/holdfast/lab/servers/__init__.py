"""Real servers on free loopback ports, to be frozen, killed and restarted.

process.py       one server process: its port, its folder, its life and its end
launch.py        how it is started, so that it does not outlive us; `ports.py` has the ports
programs.py      where the servers' programs are
certificates.py  a throw-away authority, and the certificate of a server
patience.py      waiting for a server to come to a state
group.py         several servers that are started and closed together

redis.py         a Redis or Valkey server; `resp.py` speaks its protocol
masters.py       several independent ones
sentinel.py      a master, its replicas, and sentinels that watch them
cluster.py       masters that share the slots of a cluster
mariadb.py       a MariaDB server
etcd.py          an etcd server, and a cluster of them
zookeeper.py     a ZooKeeper server, and an ensemble of them
"""
