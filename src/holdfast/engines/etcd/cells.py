"""Cells: values that are compared and set."""

from holdfast.core.messages import CHANGED, DONE, Answer, Read, Write
from holdfast.core.records import Versioned
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.commands import Calls, cell_of
from holdfast.engines.etcd.connection import Rejected, accepted

TEXT, BYTES = b"t", b"b"
"""What the value of a cell begins with."""


def read(request: Read) -> Calls[list[Answer]]:
    """The value; its version is the revision at which it was written."""
    reply = accepted((yield commands.find(cell_of(request.key))))
    if not reply.kvs:
        return [Versioned(None, 0)]
    [found] = reply.kvs
    kind, raw = found.value[:1], found.value[1:]
    if kind not in (TEXT, BYTES):
        raise Rejected(f"{cell_of(request.key)!r} is not a cell")
    return [Versioned(raw.decode() if kind == TEXT else raw, found.mod_revision)]


def write(request: Write) -> Calls[list[Answer]]:
    """Write the value if its version is the expected one."""
    value = request.value
    raw = TEXT + value.encode() if isinstance(value, str) else BYTES + value
    reply = accepted((yield commands.replace(cell_of(request.key), raw, request.expect)))
    return [DONE if reply.succeeded else CHANGED]
