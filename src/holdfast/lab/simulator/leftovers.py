"""Nothing of a lock may be left on a node, or in a client, once its turn is over."""

from holdfast.core.attempt import holder_of
from holdfast.engines.redis.keys import keys_of
from holdfast.lab.simulator.scene import Scene, Turn
from holdfast.lab.simulator.server import Server

LEFT_BEHIND = "lock left behind"

TIDY_AFTER = 0.3
"""How soon after a turn nothing of it may be left on a node that has answered everything."""


class Leftovers:
    """Looks for them after each turn, and at the end of a run."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._find = scene, scene.record.find
        self._timeline = scene.record.timeline

    def check_later(self, turn: Turn) -> None:
        """Check the nodes soon after a turn."""
        self._timeline.at(self._timeline.now + TIDY_AFTER, lambda: self._check(turn))

    def check_all(self) -> None:
        """At the end: no lock on any node, no waiter, no renewer that failed."""
        for server in self._scene.servers:
            for key in server.data.present():
                if not key.startswith(b"{"):
                    holder = (server.data.get(key) or b"").decode()
                    self._find(LEFT_BEHIND, f"{server.name}: {holder}", server.name)
        for client in self._scene.clients:
            if client.crashed:
                continue
            for loop, process in client.loops.items():
                if process.error is not None:
                    self._find("internal error", f"the {loop} is dead", client.name)
            for waiter_id in client.notifications:
                if waiter_id not in client.loops:
                    self._find(LEFT_BEHIND, f"a waiter: {waiter_id}", client.name)

    def _check(self, turn: Turn) -> None:
        """Nothing may be left on a node that has answered every message of the turn."""
        if turn.client.crashed:
            return
        later = False
        for index, server in enumerate(self._scene.servers):
            connection = turn.client.store.connections[index]
            if connection.breaks != turn.breaks[index] or server.run != turn.runs[index]:
                continue  # what was left there expires
            if connection.is_idle:
                self._check_node(turn, server)
            else:
                later = True
        if later:
            self.check_later(turn)

    def _check_node(self, turn: Turn, server: Server) -> None:
        keys = keys_of(turn.spec.key)
        mine = turn.holder.encode()
        if holder_of((server.data.get(keys.lock) or b"").decode()) == turn.holder:
            self._find(LEFT_BEHIND, f"{server.name}: {turn.holder}", server.name)
        if any(member.endswith(b" " + mine) for member in server.data.zrange(keys.queue)):
            self._find(LEFT_BEHIND, f"{server.name}: a place in the queue", server.name)
