"""Cells in an SQL database: compare and set on a version column, in one statement."""

from collections.abc import Callable, Generator
from typing import Any, Protocol

from holdfast.core.messages import CHANGED, DONE, Answer, Read, Write
from holdfast.core.records import Versioned


class CellStatements(Protocol):
    """The statements of a dialect; each is called with its values."""

    @property
    def cell(self) -> Callable[..., Any]:
        """Gives (value, whether it is text, version) of a cell that was set."""
        ...

    @property
    def make_cell(self) -> Callable[..., Any]:
        """Gives a row if done; does nothing if there is such a cell."""
        ...

    @property
    def set_cell(self) -> Callable[..., Any]:
        """Gives a row if done; does nothing unless the version is the expected one."""
        ...


def read(sql: CellStatements, request: Read) -> Generator[Any, Any, Answer]:
    """What is in a cell."""
    rows = yield sql.cell(request.key)
    if not rows:
        return Versioned(None, 0)
    value, is_text, version = rows[0]
    return Versioned(bytes(value).decode() if is_text else bytes(value), version)


def write(sql: CellStatements, request: Write) -> Generator[Any, Any, Answer]:
    """Set it if its version is the expected one."""
    is_text = isinstance(request.value, str)
    value = request.value.encode() if isinstance(request.value, str) else request.value
    if request.expect:
        rows = yield sql.set_cell(request.key, value, is_text, request.expect)
    else:
        rows = yield sql.make_cell(request.key, value, is_text)
    return DONE if rows else CHANGED
