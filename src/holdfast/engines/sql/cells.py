"""Cells in an SQL database: compare and set on a version column, in one statement."""

from typing import TYPE_CHECKING

from holdfast.core.messages import CHANGED, DONE, Read, Write
from holdfast.core.records import Versioned

if TYPE_CHECKING:
    from holdfast.engines.sql.scripts import Dialect, Script


def read(sql: "Dialect", request: Read) -> "Script":
    """What is in a cell."""
    rows = yield sql.cell(request.key)
    if not rows:
        return Versioned(None, 0)
    value, is_text, version = rows[0]
    return Versioned(bytes(value).decode() if is_text else bytes(value), version)


def write(sql: "Dialect", request: Write) -> "Script":
    """Set it if its version is the expected one."""
    is_text = isinstance(request.value, str)
    value = request.value.encode() if isinstance(request.value, str) else request.value
    if request.expect:
        rows = yield sql.set_cell(request.key, value, is_text, request.expect)
    else:
        rows = yield sql.make_cell(request.key, value, is_text)
    return DONE if rows else CHANGED
