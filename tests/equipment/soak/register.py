"""Registers that check fences: a write with a smaller fence than one before is rejected.

They live in the process that runs the soak, out of reach of all faults, and record what they
accept, so that the order of the record is the order of the writes.
"""

import json
import socket
import socketserver
import threading
from dataclasses import asdict, dataclass
from typing import Self

from holdfast.lab.history import Event, Kind
from holdfast.lab.servers.process import HOST
from tests.equipment.soak.journal import Journal


@dataclass(frozen=True, slots=True)
class Write:
    """What a client wants to write, and under which lease."""

    who: str
    hold: str
    register: str
    fence: int
    value: str


class Registers:
    """All registers, behind one port."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._fences: dict[str, int] = {}
        self._mutex = threading.Lock()
        registers = self

        class Conversation(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    taken = registers.write(Write(**json.loads(line)))
                    self.wfile.write(b"taken\n" if taken else b"refused\n")

        self._server = Server((HOST, 0), Conversation)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """Where they can be written to."""
        port: int = self._server.server_address[1]
        return port

    def write(self, write: Write) -> bool:
        """Take a write, or refuse it."""
        with self._mutex:
            taken = write.fence >= self._fences.get(write.register, write.fence)
            if taken:
                self._fences[write.register] = write.fence
            kind = Kind.WROTE if taken else Kind.REJECTED
            self._journal.add(
                Event(
                    self._journal.now(),
                    write.who,
                    kind,
                    name=write.register,
                    hold=write.hold,
                    fence=write.fence,
                    note=write.value,
                )
            )
            return taken


class Server(socketserver.ThreadingTCPServer):
    """One thread a client. A client that was killed in mid-sentence is no error."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Its connection broke: there is nothing to be done."""


class Pen:
    """A client's way to the registers."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._file = self._socket.makefile("rb")

    def write(self, write: Write) -> bool:
        """Write; whether it was taken."""
        self._socket.sendall(json.dumps(asdict(write)).encode() + b"\n")
        return self._file.readline() == b"taken\n"

    def close(self) -> None:
        """Write no more."""
        self._file.close()
        self._socket.close()
