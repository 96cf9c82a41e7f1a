"""Which waiter is to be woken when which key is deleted. Pure but for its mutex.

A waiter watches the place before its own and no other, so one release wakes one waiter. One that
waits for a semaphore watches as many places as that has slots. All watches of a client go over one
stream. When a watch ends for any other reason, a compaction, the loss of the stream or of the
leader, its waiter is woken too, and asks again: that is the only way in which a watch is resumed.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.ports import Notify
from holdfast.engines.etcd import commands
from holdfast.engines.etcd.protocol import DELETED

TICK = 0.5
"""Seconds between two looks whether a waiter's session must be kept alive."""

WATCH_FOR = 600.0
"""Seconds after which the stream of watches is opened anew, should nothing else have ended it."""

REOPEN_AFTER = 0.1
"""Seconds until a stream that was lost is opened again."""

LINGER = 3
"""Ticks after which the background work of a client without waiters ends."""

Send = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Watch:
    """One waiter, and the key that it watches."""

    number: int
    holder: str
    place: bytes
    since: int
    """The first revision at which a deletion would be news."""


class Watches:
    """The watches of one client."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._numbers = itertools.count(1)
        self._watches: dict[int, Watch] = {}
        self._send: Send | None = None
        self._mutex = threading.Lock()

    def watch(self, holder: str, places: Sequence[bytes], since: int) -> None:
        """Wake the holder when one of these keys is deleted. It may have been already."""
        with self._mutex:
            known = {each.place: each for each in self._watches_of(holder)}
            for place, watch in known.items():
                if place not in places:
                    self._end(watch)
            for place in places:
                if place not in known:
                    watch = Watch(next(self._numbers), holder, place, since)
                    self._watches[watch.number] = watch
                    if self._send is not None:
                        self._send(commands.watch(watch.number, place, since))

    def end(self, holder: str) -> None:
        """The holder waits no more."""
        with self._mutex:
            for watch in self._watches_of(holder):
                self._end(watch)

    def opened(self, send: Send) -> None:
        """There is a stream now."""
        with self._mutex:
            self._send = send
            for each in self._watches.values():
                send(commands.watch(each.number, each.place, each.since))

    def received(self, response: Any) -> bool:
        """A message came over the stream. False if the stream is of no use any more: a watch was
        refused, and so would be the next, as on a stream whose login has expired."""
        deleted = any(event.type == DELETED for event in response.events)
        if not deleted and not response.canceled:
            return True
        with self._mutex:
            watch = self._watches.get(response.watch_id)
            if watch is None:  # it was ended, unless the server does not say which was refused
                return bool(response.watch_id >= 0)
            self._end(watch)
        self._notify(watch.holder)
        return deleted or response.compact_revision > 0

    def closed(self, send: Send) -> None:
        """That stream is gone: all its waiters are woken, and ask again; unless there is another
        stream already."""
        with self._mutex:
            if self._send is not send:
                return
            self._send = None
            holders = dict.fromkeys(each.holder for each in self._watches.values())
            self._watches.clear()
        for holder in holders:
            self._notify(holder)

    def _watches_of(self, holder: str) -> list[Watch]:
        return [each for each in self._watches.values() if each.holder == holder]

    def _end(self, watch: Watch) -> None:
        # It may be interrupted between any two lines: then it is done again.
        if self._send is not None:
            self._send(commands.unwatch(watch.number))
        self._watches.pop(watch.number, None)
