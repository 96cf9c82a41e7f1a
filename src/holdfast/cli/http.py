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
from holdfast.cli import exits
from holdfast.cli.hold import Request
from holdfast.cli.options import label_as_dict, open_client
from holdfast.cli.output import Output

KEEP_ALIVE = 15.0
"""Seconds after which an idle stream gets a comment, so that proxies do not close it."""

RETRY = 1.0
"""Seconds until an engine that is unreachable is asked again."""


class Board:
    """What was observed last, which many wait for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self.last = 0, 503, json.dumps({"name": name, "error": "nothing was observed yet"})
        """Its number, the status, and the body."""

    def post(self, status: int, **facts: object) -> None:
        """Replace it."""
        with self._changed:
            self.last = self.last[0] + 1, status, json.dumps({"name": self._name, **facts})
            self._changed.notify_all()

    def wait(self, after: int, timeout: float) -> tuple[int, int, str]:
        """The last one, as soon as it comes after that number, or at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.last[0] > after, timeout)
            return self.last


def as_dict(leader: holdfast.Leader | None) -> dict[str, object] | None:
    """A leader as JSON has it."""
    if leader is None:
        return None
    return {
        "value": leader.value,
        "term": leader.term,
        "holder": leader.holder,
        **label_as_dict(leader.label),
    }


def observe(client: holdfast.Client, name: str, ttl: float | None, board: Board) -> None:
    """Post each change, until the client is closed. An engine that is unreachable is asked again
    for one `ttl` of the leaders before the leader is unknown."""
    pause = threading.Event()
    while not client.closed:
        try:
            for leader in client.election(name, ttl=ttl).observe():
                board.post(200, leader=as_dict(leader))
        except (holdfast.LockError, ValueError) as error:
            board.post(503, error=str(error))
            pause.wait(RETRY)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    """Seconds that a reader may take to send a request, or to receive an answer."""

    def do_GET(self) -> None:
        """`/` or `/events`."""
        if self.path == "/events":
            self._stream()
        elif self.path == "/":
            _, status, body = self.server.board.last
            self._send(status, body)
        else:
            self._send(404, json.dumps({"error": "there are / and /events"}))

    def _send(self, status: int, body: str) -> None:
        data = body.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        sent = -1
        while True:
            number, status, body = self.server.board.wait(sent, KEEP_ALIVE)
            text = f"event: {'leader' if status == 200 else 'unknown'}\ndata: {body}\n\n"
            if number == sent:
                text = ": still here\n\n"
            sent = number
            self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """Answers each in a thread of its own, on a socket that listens already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, board: Board) -> None:
        super().__init__(listener.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.board = listener, board

    def handle_error(self, request: object, client_address: object) -> None:
        """Print what was raised, unless it is that the reader has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def listen(address: str) -> socket.socket:
    """A socket that listens on `HOST:PORT`; without a host, on all addresses of this one."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family)
    except (OSError, ValueError, OverflowError) as error:
        raise click.UsageError(
            f"--http {address!r}: give a [HOST]:PORT to listen on: {error}"
        ) from None


def serve(listener: socket.socket, request: Request, output: Output) -> int:
    """Answer until the process is ended."""
    server = Server(listener, Board(request.name))
    with open_client(request.url, output) as client:
        observed = client, request.name, request.ttl, server.board
        threading.Thread(target=observe, args=observed, daemon=True).start()
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        output.note(f"answering on http://{shown}:{port}/ who leads {request.name!r}")
        server.serve_forever()
    return exits.UNAVAILABLE
