"""The part of the client/server protocol of MySQL that we speak: prepared statements, and what is
said back. Pure: bytes in, bytes out. (Connecting is left to PyMySQL.)

A packet has a length (3 bytes), a number (1 byte) and a body. One that is as long as can be is
continued by the next.
"""

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeAlias

from holdfast.engines.sql.links import Row
from holdfast.engines.sql.mysql.errors import read_error

QUERY, PREPARE, EXECUTE, CLOSE = 0x03, 0x16, 0x17, 0x19

OK, END, ERROR = 0x00, 0xFE, 0xFF

LONGEST = 0xFFFFFF

LONGLONG, DOUBLE, BLOB = 8, 5, 252

_NUMBERS = {
    1: struct.Struct("<b"),
    2: struct.Struct("<h"),
    3: struct.Struct("<i"),
    9: struct.Struct("<i"),
    LONGLONG: struct.Struct("<q"),
    DOUBLE: struct.Struct("<d"),
}
"""By type; everything else is bytes that say their length."""

_OUR_ENCODING = "utf-8"

Reply: TypeAlias = Generator[None, bytes, list[Row]]
"""Is sent the packets of an answer, and returns its rows."""


def framed(command: int, body: bytes) -> bytes:
    """A command, ready to be sent."""
    rest, frames, number = bytes([command]) + body, bytearray(), 0
    while True:
        piece, rest = rest[:LONGEST], rest[LONGEST:]
        frames += len(piece).to_bytes(3, "little") + bytes([number % 256]) + piece
        number += 1
        if len(piece) < LONGEST:
            return bytes(frames)


class Incoming:
    """Cuts what arrives into the bodies of packets."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """So much has arrived."""
        self._bytes += data

    def packets(self) -> Iterator[bytes]:
        """The packets that are complete."""
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:3], "little")
            if len(self._bytes) < end:
                return
            body = self._begun + bytes(self._bytes[4:end])
            del self._bytes[:end]
            if end == 4 + LONGEST:
                self._begun = body
            else:
                self._begun = b""
                yield body


def execution(statement: int, values: Sequence[Any]) -> bytes:
    """What executes a prepared statement with these values: whole numbers, text or bytes."""
    types, data = bytearray(), bytearray()
    for value in values:
        if isinstance(value, int):
            types += bytes((LONGLONG, 0))
            data += value.to_bytes(8, "little", signed=True)
        else:
            given = value.encode(_OUR_ENCODING) if isinstance(value, str) else value
            types += bytes((BLOB, 0))
            data += _with_length(given)
    no_nulls = bytes((len(values) + 7) // 8)
    head = struct.pack("<IBI", statement, 0, 1)
    return head + (no_nulls + b"\x01" + types + data if values else b"")


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
    columns: list[bytes] = []
    while len(columns) < count:
        columns.append((yield))
    types = [_type_of(column) for column in columns]
    yield  # those were all
    rows: list[Row] = []
    while True:
        packet = _good((yield))
        if packet[0] == END:
            return rows
        rows.append(_row(packet, types))


def _good(packet: bytes) -> bytes:
    if packet[0] == ERROR:
        # Its number, then `#` and a state, then words.
        [number] = struct.unpack_from("<H", packet, 1)
        words = packet[9:] if packet[3:4] == b"#" else packet[3:]
        raise read_error(number, words.decode(errors="replace"))
    return packet


def _type_of(column: bytes) -> int:
    """Of the description of a column: six names, a length, a charset, a size, and the type."""
    at = 0
    for _ in range(6):
        size, at = _number(column, at)
        at += size
    return column[at + 7]


def _row(packet: bytes, types: Sequence[int]) -> Row:
    nulls, at = packet[1:], 1 + (len(types) + 9) // 8
    values: list[Any] = []
    for n, kind in enumerate(types, 2):
        if nulls[n // 8] & (1 << n % 8):
            values.append(None)
        elif kind in _NUMBERS:
            values += _NUMBERS[kind].unpack_from(packet, at)
            at += _NUMBERS[kind].size
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


def _with_length(data: bytes) -> bytes:
    size = len(data)
    if size < 0xFB:
        return bytes([size]) + data
    for mark, width in ((0xFC, 2), (0xFD, 3)):
        if size < 1 << 8 * width:
            return bytes([mark]) + size.to_bytes(width, "little") + data
    return b"\xfe" + size.to_bytes(8, "little") + data
