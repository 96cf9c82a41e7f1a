"""What to say to etcd for each request, and what its answers mean: pure, written once.

A *talk* is a generator. It yields a call, or several that go out together, or a batch of
keep-alives, and is sent the replies. It is closed in the middle if there is no reply; the same
request is then talked over again from the beginning, and finds what the first talk has left.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from holdfast.core.messages import Acquire, Answer, Extend, Release, Request
from holdfast.engines.etcd import phrases
from holdfast.engines.etcd.books import Books
from holdfast.engines.etcd.keeping import Keeping
from holdfast.engines.etcd.looking import look
from holdfast.engines.etcd.phrases import Call, KeepAlives
from holdfast.engines.etcd.taking import Taking
from holdfast.engines.etcd.vigil import Vigil

T = TypeVar("T")
Talk: TypeAlias = Generator[Call | list[Call] | KeepAlives, Any, T]


class Speech:
    """All talks of one client."""

    def __init__(self, books: Books, vigil: Vigil) -> None:
        self._books = books
        self._taking, self._keeping = Taking(books, vigil), Keeping(books, vigil)

    def talk(self, requests: Sequence[Request], known: dict[str, Any]) -> Talk[Sequence[Answer]]:
        """Talk over one request, or several of a kind. `known` goes from one talk to the next about
        the same requests."""
        first = requests[0]
        if isinstance(first, Acquire):
            return [(yield from self._taking.acquire(first))]
        if isinstance(first, Release):
            return (yield from self._keeping.release(cast("Sequence[Release]", requests)))
        if isinstance(first, Extend):
            return (yield from self._keeping.extend(cast("Sequence[Extend]", requests)))
        return [(yield from look(first, known))]

    def keep_session(self) -> Talk[None]:
        """Let the places of those who wait live on."""
        session = self._books.session
        if session is not None and session.granted:
            [ttl] = yield KeepAlives([session.lease])
            if ttl <= 0:
                self._books.retire(session)

    def revoke(self, leases: Sequence[int]) -> Talk[None]:
        """End leases that nobody needs any more."""
        yield [phrases.revoke(lease) for lease in leases]

    def end_sessions(self) -> Talk[None]:
        """Nobody waits any more."""
        leases = self._books.end_sessions()
        if leases:
            yield [phrases.revoke(lease) for lease in leases]
            self._books.call_over()  # somebody may have joined at the last moment
