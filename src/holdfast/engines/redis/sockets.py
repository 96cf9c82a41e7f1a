"""What sockets give, and what they raise."""

import ssl
from typing import Any

import hiredis
from redis.exceptions import RedisError

from holdfast.engines.redis.nodes import RefusedError

READ_SIZE = 65536

CLOSED = "the connection was closed"

NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

BROKEN = (OSError, EOFError, RedisError, RefusedError, hiredis.HiredisError)
"""What a connection may raise: it is of no use any more, or could not be made."""


def take_in(sock: Any, reader: hiredis.Reader, flags: int = 0) -> None:
    """Feed the parser with what has arrived."""
    took_some = False
    try:
        while data := sock.recv(READ_SIZE, flags):
            reader.feed(data)
            if not isinstance(sock, ssl.SSLSocket) or sock.gettimeout() != 0:
                return
            took_some = True  # TLS gives one record at a time, and there may be more
    except NOT_NOW:
        return  # nothing is left; or it was woken for less than a record, or for nothing
    except OSError:
        if not took_some:
            raise
    # What came before the end goes first; the end is seen the next time.
    if not took_some:
        raise EOFError(CLOSED)


def is_foreign(error: BaseException) -> bool:
    """Whether it is none of a connection's own: an OSError without a number is not the socket's,
    but some signal handler's."""
    return isinstance(error, OSError) and error.errno is None


def has_struck(error: BaseException) -> bool:
    """Whether a signal handler has raised it, just as a socket was called that is not made of
    Python: then it has come through a frame more. What was read or sent nobody knows."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is not None


def explain(error: BaseException) -> str:
    """What to say of one of these."""
    return str(error) or (
        "no connection in time" if isinstance(error, TimeoutError) else repr(error)
    )
