"""The part of the client/server protocol of MySQL that we speak: prepared statements, and what is
said back. Pure: bytes in, bytes out. (Connecting is left to PyMySQL.)

A packet has a length (3 bytes), a number (1 byte) and a body. One that is as long as can be is
continued by the next.
"""

import struct
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from holdfast.engines.sql.links import Row
from holdfast.engines.sql.mysql.errors import read_error

QUERY, PREPARE, EXECUTE, CLOSE = 0x03, 0x16, 0x17, 0x19

OK, END, ERROR = 0x00, 0xFE, 0xFF

LONGEST = 0xFFFFFF

LONGLONG, DOUBLE, BLOB = 8, 5, 252

_OF_NUMBER, _OF_BYTES = bytes((LONGLONG, 0)), bytes((BLOB, 0))
"""The types of values that we send."""

_HEAD, _EXECUTION, _LONG = struct.Struct("<I"), struct.Struct("<IBI"), struct.Struct("<q")

_NUMBERS = {
    1: struct.Struct("<b"),
    2: struct.Struct("<h"),
    3: struct.Struct("<i"),
    9: struct.Struct("<i"),
    LONGLONG: _LONG,
    DOUBLE: struct.Struct("<d"),
}
"""Of the columns of rows, by type; everything else is bytes that say their length."""

_OUR_ENCODING = "utf-8"

Reply: TypeAlias = Generator[None, bytes, list[Row]]
"""Is sent the packets of an answer, and returns its rows."""


def framed(command: int, body: bytes) -> bytes:
    """A command, ready to be sent."""
    frames: list[bytes] = []
    rest, number = bytes((command,)) + body, 0
    while True:
        piece = rest[:LONGEST]
        frames += (_HEAD.pack(len(piece) | number % 256 << 24), piece)
        if len(piece) < LONGEST:
            return b"".join(frames)
        rest, number = rest[LONGEST:], number + 1


class Incoming:
    """Cuts what arrives into the bodies of packets."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._begun = b""

    def feed(self, data: bytes) -> list[bytes]:
        """So much has arrived: gives the packets that are complete now."""
        received, at, found = self._bytes, 0, []
        received += data
        while len(received) >= at + 4:
            size = _HEAD.unpack_from(received, at)[0] & LONGEST
            end = at + 4 + size
            if len(received) < end:
                break
            self._begun += received[at + 4 : end]
            at = end
            if size < LONGEST:
                found.append(self._begun)
                self._begun = b""
        del received[:at]
        return found


def execution(statement: int, values: Sequence[Any]) -> bytes:
    """What executes a prepared statement with these values: whole numbers, text or bytes."""
    head = _EXECUTION.pack(statement, 0, 1)
    if not values:
        return head
    types, data = [], []
    for value in values:
        if isinstance(value, int):
            types.append(_OF_NUMBER)
            data.append(_LONG.pack(value))
        else:
            given = value.encode(_OUR_ENCODING) if isinstance(value, str) else value
            types.append(_OF_BYTES)
            data += (_length(len(given)), given)
    no_nulls = bytes((len(values) + 7) // 8)
    return b"".join((head, no_nulls, b"\x01", *types, *data))


def closing(statement: int) -> bytes:
    """What makes the server forget a prepared statement. It says nothing to that."""
    return framed(CLOSE, struct.pack("<I", statement))


def preparing() -> Reply:
    """Gives one row: the number of the statement that was prepared."""
    packet = _good((yield))
    statement, columns, values = struct.unpack_from("<IHH", packet, 1)
    for count in (values, columns):
        for _ in range(count + 1 if count else 0):  # what each is, and that these were all
            yield
    return [(statement,)]


def executing() -> Reply:
    """Gives the rows; of a statement that has none to give, how many it found, as a row, if any."""
    packet = _good((yield))
    if packet[0] == OK:
        found, _ = _number(packet, 1)
        return [(found,)] if found else []
    count, _ = _number(packet, 0)
    columns: list[struct.Struct | None] = []
    while len(columns) < count:
        columns.append(_kind_of((yield)))
    yield  # those were all
    rows: list[Row] = []
    while True:
        packet = _good((yield))
        if packet[0] == END:
            return rows
        rows.append(_row(packet, columns))


def _good(packet: bytes) -> bytes:
    if packet[0] == ERROR:
        # Its number, then `#` and a state, then words.
        [number] = struct.unpack_from("<H", packet, 1)
        words = packet[9:] if packet[3:4] == b"#" else packet[3:]
        raise read_error(number, words.decode(errors="replace"))
    return packet


@lru_cache
def _kind_of(column: bytes) -> struct.Struct | None:
    """Of the description of a column: six names, a length, a charset, a size, and the type. None
    stands for bytes that say their length."""
    at = 0
    for _ in range(6):
        size, at = _number(column, at)
        at += size
    return _NUMBERS.get(column[at + 7])


def _row(packet: bytes, columns: Sequence[struct.Struct | None]) -> Row:
    nulls, at = packet[1:], 1 + (len(columns) + 9) // 8
    values: list[Any] = []
    for n, number in enumerate(columns, 2):
        if nulls[n // 8] & (1 << n % 8):
            values.append(None)
        elif number is not None:
            values += number.unpack_from(packet, at)
            at += number.size
        else:
            size, at = _number(packet, at)
            values.append(packet[at : at + size])
            at += size
    return tuple(values)


def _number(packet: bytes, at: int) -> tuple[int, int]:
    """A number that says how long it is, and where the next thing begins."""
    first = packet[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(packet[at + 1 : at + 1 + size], "little"), at + 1 + size


def _length(size: int) -> bytes:
    """The same for what we send."""
    if size < 0xFB:
        return bytes((size,))
    for mark, width in ((0xFC, 2), (0xFD, 3)):
        if size < 1 << 8 * width:
            return bytes((mark,)) + size.to_bytes(width, "little")
    return b"\xfe" + size.to_bytes(8, "little")
