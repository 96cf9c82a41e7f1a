"""Servers that several cases share, since some take seconds to start: each is started when a case
first asks for it, and ends with the program."""

import atexit
from contextlib import ExitStack
from functools import cache

from tests.equipment.servers.etcd import EtcdServer, find_etcd_wheel
from tests.equipment.servers.mariadb import MariaDbServer
from tests.equipment.servers.postgres import PostgresServer
from tests.equipment.servers.zookeeper import ZooKeeperServer

_running = ExitStack()
atexit.register(_running.close)

MANY_CONNECTIONS = "400"


@cache
def postgres() -> PostgresServer:
    server = PostgresServer(settings={"max_connections": MANY_CONNECTIONS})
    return _running.enter_context(server)


@cache
def mariadb() -> MariaDbServer:
    """With room for a million rows, or making them would take minutes."""
    room = {"innodb-buffer-pool-size": "256M", "innodb-log-file-size": "128M"}
    server = MariaDbServer(settings={"max-connections": MANY_CONNECTIONS, **room})
    return _running.enter_context(server)


@cache
def etcd() -> EtcdServer:
    """It does not wait for its disk, which would take longer than all the rest, and hide it."""
    server = EtcdServer(program=find_etcd_wheel(), options=("--unsafe-no-fsync",))
    return _running.enter_context(server)


@cache
def zookeeper() -> ZooKeeperServer:
    return _running.enter_context(ZooKeeperServer())
