"""Cells: values that are compared and set."""

from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from holdfast.core.messages import CHANGED, DONE, Answer, Read, Write
from holdfast.core.records import Versioned
from holdfast.engines.zookeeper import commands
from holdfast.engines.zookeeper.commands import Tree, parents
from holdfast.engines.zookeeper.sessions import Calls, Rejected, Send, Sessions

TEXT, BYTES = b"t", b"b"
"""What the value of a cell begins with."""


def read(tree: Tree, sessions: Sessions, request: Read) -> Calls[list[Answer]]:
    """The value; its version is that of the node, counted from 1."""
    path = tree.cell(request.key)
    calls = [commands.sync(), commands.get(path)]
    _, found = yield Send(sessions.any(), calls)
    if isinstance(found, NoNodeError):
        return [Versioned(None, 0)]
    data, known = found
    kind, raw = data[:1], data[1:]
    if kind not in (TEXT, BYTES):
        raise Rejected(f"{path} is not a cell")
    return [Versioned(raw.decode() if kind == TEXT else raw, known.version + 1)]


def write(tree: Tree, sessions: Sessions, request: Write) -> Calls[list[Answer]]:
    """Write the value if its version is the expected one."""
    session = sessions.any()
    path, value = tree.cell(request.key), request.value
    data = TEXT + value.encode() if isinstance(value, str) else BYTES + value
    writing = (
        commands.put(path, data, request.expect - 1)
        if request.expect
        else commands.create(path, data)
    )
    [written] = yield Send(session, [writing])
    if isinstance(written, NoNodeError) and not request.expect:
        above = [commands.node(each) for each in parents(tree.cells)]
        written = (yield Send(session, [*above, writing]))[-1]
    return [CHANGED if _has_failed(written) else DONE]


def _has_failed(reply: Any) -> bool:
    return isinstance(reply, (NoNodeError, NodeExistsError, BadVersionError))
