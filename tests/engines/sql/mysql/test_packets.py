"""The protocol of MySQL, as far as we speak it: pure, so without a server."""

import struct

import pytest

from holdfast.engines.sql.links import Row, SqlError
from holdfast.engines.sql.mysql.packets import (
    EXECUTE,
    LONGEST,
    Incoming,
    Reply,
    executing,
    execution,
    framed,
    preparing,
)

END_OF_LIST = b"\xfe\x00\x00\x02\x00"


def told(reply: Reply, *packets: bytes) -> list[Row]:
    next(reply)
    for packet in packets[:-1]:
        reply.send(packet)
    with pytest.raises(StopIteration) as end:
        reply.send(packets[-1])
    rows: list[Row] = end.value.value
    return rows


def column(kind: int) -> bytes:
    names = b"\x03def" + b"\x01x" * 5
    return names + b"\x0c" + struct.pack("<HIBHB", 63, 8, kind, 0, 0) + b"\0\0"


@pytest.mark.parametrize("size", [0, 1, LONGEST - 2, LONGEST - 1, LONGEST, 2 * LONGEST])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_what_is_framed_is_found_again_in_whatever_pieces_it_comes(size: int, piece: int) -> None:
    if size > 1 and piece == 7:
        piece = size // 3
    body = bytes(size)
    sent = framed(EXECUTE, body)
    incoming, found = Incoming(), []
    for at in range(0, len(sent), piece):
        found += incoming.feed(sent[at : at + piece])
    assert found == [bytes([EXECUTE]) + body]


def test_the_frames_of_a_command_are_numbered() -> None:
    sent = framed(EXECUTE, bytes(LONGEST))
    assert sent[3] == 0
    assert sent[4 + LONGEST :][3] == 1


def test_two_packets_at_once() -> None:
    incoming = Incoming()
    assert incoming.feed(b"\x01\0\0\0a\x02\0\0\x01bc\x01\0\0") == [b"a", b"bc"]
    assert incoming.feed(b"\0d") == [b"d"], "which had begun with them"


def test_values_say_what_they_are() -> None:
    body = execution(7, (-1, "ä", b"\0"))
    assert body[:9] == struct.pack("<IBI", 7, 0, 1)
    assert body[9:11] == b"\0\x01", "none is null, and their types follow"
    assert body[11:17] == bytes((8, 0, 252, 0, 252, 0))
    assert body[17:] == b"\xff" * 8 + b"\x02\xc3\xa4" + b"\x01\0"


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (250, b"\xfa"),
        (251, b"\xfc\xfb\0"),
        (1 << 16, b"\xfd\0\0\x01"),
        (1 << 24, b"\xfe\0\0\0\x01"),
    ],
)
def test_long_values_say_how_long_they_are(size: int, head: bytes) -> None:
    assert execution(7, (bytes(size),))[13:].startswith(head)
    assert len(execution(7, (bytes(size),))) == 13 + size + (9 if size == 1 << 24 else len(head))


def test_rows() -> None:
    row = b"\0" + b"\0" + struct.pack("<q", -5) + b"\x02hi"
    rows = told(executing(), b"\x02", column(8), column(253), END_OF_LIST, row, END_OF_LIST)
    assert rows == [(-5, b"hi")]


def test_nulls_and_small_numbers() -> None:
    types = [1, 2, 3, 9, 5, 8]
    values = struct.pack("<bhiid", -1, -2, -3, -4, 0.5)
    row = b"\0" + bytes([1 << 7]) + values  # of the last, whose bit comes after two of nobody's
    rows = told(executing(), b"\x06", *map(column, types), END_OF_LIST, row, END_OF_LIST)
    assert rows == [(-1, -2, -3, -4, 0.5, None)]


@pytest.mark.parametrize(("found", "rows"), [(b"\0", []), (b"\x03", [(3,)])])
def test_what_gives_no_rows_tells_how_many_it_found(found: bytes, rows: list[Row]) -> None:
    assert told(executing(), b"\0" + found + b"\0\x02\0\0\0") == rows


def test_preparing() -> None:
    packets = [struct.pack("<BIHHBH", 0, 9, 1, 2, 0, 0)]
    packets += [column(253), column(253), END_OF_LIST, column(8), END_OF_LIST]
    assert told(preparing(), *packets) == [(9,)]
    assert told(preparing(), struct.pack("<BIHHBH", 0, 4, 0, 0, 0, 0)) == [(4,)]


@pytest.mark.parametrize("so_far", [(), (b"\x01", column(8), END_OF_LIST)], ids=["first", "late"])
def test_an_error_may_come_at_once_or_after_the_columns(so_far: tuple[bytes, ...]) -> None:
    reply = executing()
    next(reply)
    for packet in so_far:
        reply.send(packet)
    with pytest.raises(SqlError, match=r"^gone away$"):
        reply.send(b"\xff" + struct.pack("<H", 1927) + b"#70100gone away")
