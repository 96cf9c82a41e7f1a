"""Who leads, over HTTP: `GET /` as JSON, `GET /events` as server-sent events.

One thread observes the election; each request has a thread of its own, which reads what was
observed last: 503 once the engine has been unreachable for one ttl, as the leader is unknown then.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click

import holdfast
from holdfast.cli import console
from holdfast.cli.console import Output
from holdfast.cli.hold import Request
from holdfast.cli.options import label_as_dict, open_client

KEEP_ALIVE = 15.0
"""Seconds after which an idle stream gets a comment, so that proxies do not close it."""

RETRY = 1.0
"""Seconds until an engine that is unreachable is asked again."""

_NOT_FOUND = json.dumps({"error": "there are / and /events"})


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server  # pyright: ignore[reportIncompatibleVariableOverride] - no other uses it
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    """Seconds that a reader may take to send a request, or to receive an answer."""

    def do_GET(self) -> None:
        if self.path == "/events":
            self._stream()
            return
        status, body = self.server.last if self.path == "/" else (404, _NOT_FOUND)
        data = body.encode() + b"\n"
        self._begin(
            status, ("Content-Type", "application/json"), ("Content-Length", str(len(data)))
        )
        self.wfile.write(data)

    def _stream(self) -> None:
        self._begin(200, ("Content-Type", "text/event-stream"), ("Connection", "close"))
        seen = None
        while True:
            last = self.server.wait(seen, KEEP_ALIVE)
            event = "leader" if last[0] == 200 else "unknown"
            text = ": still here" if last is seen else f"event: {event}\ndata: {last[1]}"
            self.wfile.write(f"{text}\n\n".encode())
            seen = last

    def _begin(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Cache-Control", "no-store"), *headers):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        pass


class Server(ThreadingHTTPServer):
    """Answers each in a thread of its own, on a socket that listens already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, name: str) -> None:
        super().__init__(listener.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self._name = listener, name
        self._changed = threading.Condition()
        self.post(503, error="nothing was observed yet")

    def post(self, status: int, **facts: object) -> None:
        """Replace what was observed last: the status, and the body."""
        with self._changed:
            self.last = status, json.dumps({"name": self._name, **facts})
            self._changed.notify_all()

    def wait(self, seen: tuple[int, str] | None, timeout: float) -> tuple[int, str]:
        """What was observed last, as soon as it is not what was seen, or at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.last is not seen, timeout)
            return self.last

    def observe(self, client: holdfast.Client, ttl: float | None) -> None:
        """Post each change, until the client is closed. An engine that is unreachable is asked
        again for one `ttl` of the leaders before the leader is unknown."""
        pause = threading.Event()
        while not client.closed:
            try:
                for leader in client.election(self._name, ttl=ttl).observe():
                    self.post(200, leader=leader and _as_dict(leader))
            except (holdfast.LockError, ValueError) as error:
                self.post(503, error=str(error))
                pause.wait(RETRY)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print what was raised, unless it is that the reader has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _as_dict(leader: holdfast.Leader) -> dict[str, object]:
    about = {"value": leader.value, "term": leader.term, "holder": leader.holder}
    return {**about, **label_as_dict(leader.label)}


def listen(address: str) -> socket.socket:
    """A socket that listens on `HOST:PORT`; without a host, on all addresses of this one."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise click.UsageError(
            f"--http {address!r}: give [HOST]:PORT, with a port from 0 (any that is free) to 65535"
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--http {address!r}: cannot listen there: {error}") from None


def serve(listener: socket.socket, request: Request, output: Output) -> int:
    """Answer until the process is ended."""
    server = Server(listener, request.name)
    with open_client(request.url, output) as client:
        threading.Thread(target=server.observe, args=(client, request.ttl), daemon=True).start()
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        output.note(f"answering on http://{shown}:{port}/ who leads {request.name!r}")
        server.serve_forever()
    return console.UNAVAILABLE
