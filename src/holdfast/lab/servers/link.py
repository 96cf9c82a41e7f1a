"""The network between a client and one server: a port of its own that leads there, until it is
cut."""

import socket
import socketserver
import threading
from contextlib import suppress
from select import select
from typing import Any

from holdfast.lab.servers.process import HOST


class Link(socketserver.ThreadingTCPServer):
    """Forwards bytes between its own port and that of a server, until it is closed.

    >>> with Link(6379) as link:  # clients connect to link.address
    ...     link.cut()
    ...     link.heal()
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, target_port: int) -> None:
        super().__init__((HOST, 0), socketserver.BaseRequestHandler)
        self._target_port = target_port
        self._is_cut = False
        self._clients: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def server_close(self) -> None:
        """Listen no more, and close every connection."""
        self.shutdown()
        self.heal()
        super().server_close()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        port: int = self.server_address[1]
        return port

    def cut(self) -> None:
        """Lose what is sent from now on, in both directions, without an error."""
        self._is_cut = True

    def heal(self) -> None:
        """Forward again. Connections of which something may have been lost are closed."""
        self._is_cut = False
        for client in tuple(self._clients):
            with suppress(OSError):  # it is closed already
                client.shutdown(socket.SHUT_RDWR)

    def finish_request(self, request: Any, client_address: object) -> None:
        """Forward what comes from a client and from the server, until one of them closes the
        connection. Each connection has a thread of its own."""
        self._clients.add(request)
        try:
            with socket.create_connection((HOST, self._target_port)) as target:
                self._forward(request, target)
        except OSError:
            return  # one side has gone: the other is closed
        finally:
            self._clients.discard(request)

    def _forward(self, client: socket.socket, target: socket.socket) -> None:
        for side in (client, target):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            for side in select((client, target), (), ())[0]:
                data = side.recv(65536)
                if not data:
                    return
                if not self._is_cut:
                    (target if side is client else client).sendall(data)
