"""Serving the page alone, for `holdfast ui`."""

import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

STALLED = 20_000
"""Milliseconds after which a connection ends whose other end does not read."""


def listen(bind: str, port: int) -> socket.socket:
    """A socket whose connections do not wait forever for a browser that does not read."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.create_server((bind, port), family=family)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED)
    return listener


def run(page: Starlette, listener: socket.socket) -> None:
    """Serve it until a signal says to stop."""
    # No access log: the token stands in the first request.
    config = uvicorn.Config(
        page,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    _Server(config, page).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends the streams when it is told to stop: they would last forever."""

    def __init__(self, config: uvicorn.Config, page: Starlette) -> None:
        super().__init__(config)
        self._feed = page.state.feed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop has come."""
        self._feed.end_streams()
        super().handle_exit(sig, frame)
