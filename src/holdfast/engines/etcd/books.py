"""What a client has, or may have, at the servers: kept so that all of it can be given back.

1. A lease has an id that we chose, written down here before it is asked for. So it can be revoked
   although the answer was lost, and whatever was to hang on it then fails, however late it comes.
2. Those who hold have a lease each. Those who wait share one, the *session*, which is short and
   kept alive while anybody waits: so a client that dies holds nobody up for longer than that.
3. If nobody knows whether a place was taken or given up, its session is *retired*: it is kept alive
   no more, and so the place is gone soon. The other waiters hang their places on the next session,
   and do not lose them.
4. Who gives something back takes it out of the books, and puts it in again if there is no answer.
   So nobody else can act in that holder's name meanwhile.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.core.ports import Clock
from holdfast.engines.etcd.spares import NEVER, Spares

SESSION = 5
"""Seconds after which a client that waits and dies is out of every queue."""


MOST_UNHEARD = 10_000
"""How many holders whose farewell was not answered are kept in mind."""


def new_lease() -> int:
    """An id that nobody else has: a positive number of 63 bits."""
    return secrets.randbits(62) + 1


@dataclass(slots=True, eq=False)
class Session:
    """The lease that the places of a client's waiters hang on."""

    lease: int = field(default_factory=new_lease)
    granted: bool = False


@dataclass(slots=True, eq=False)
class Stake:
    """What one holder has, or may have."""

    place: bytes
    """Its key, which may have been another one's before: see `spares`."""
    leases: tuple[int, ...] = ()
    """Every lease that was asked for in its name, and may still be there."""
    lease: int = 0
    """The one that its key hangs on while it holds; 0 if it does not, or nobody knows."""
    ttl: int = 0
    """Of that lease; 0 if the key may hang on another one by now."""
    attached: int = 0
    """The revision at which the key was put on that lease."""
    revision: int = 0
    """At which its key was created; 0 if it has none, or nobody knows."""
    modified: int = 0
    """At which its key was written last, as far as we know."""
    granted_at: float = NEVER
    """The instant before its one lease was asked for; `NEVER` if it has several, or if something
    that was said about it may still come: then it cannot become a spare."""
    session: Session | None = None
    """The one that its place in the queue hangs on, or may hang on."""
    doubtful: bool = False
    """Whether it is unknown if it has a place in the queue."""
    called: bool = False
    """Whether the one before it is gone."""
    unheard: bool = False
    """Whether it has said farewell, and it is unknown if anybody heard it."""

    def new_lease(self) -> int:
        """Write a lease down before it is asked for."""
        self.granted_at = NEVER
        lease = new_lease()
        self.leases += (lease,)
        return lease

    def hold(self, lease: int, ttl: int, attached: int) -> None:
        """Its key hangs on that lease, unless it was hung on another one since."""
        if attached > self.attached:
            self.lease, self.ttl, self.attached = lease, ttl, attached


class Books:
    """The stakes of all holders of one client, its spares, and the session of those who wait."""

    def __init__(
        self, notify: Callable[[str], None], clock: Clock, stakes: dict[str, Stake] | None = None
    ) -> None:
        self._notify = notify
        self.spares = Spares(clock)
        self.stakes: dict[str, Stake] = {} if stakes is None else stakes
        self.begin()

    def begin(self) -> None:
        """With nothing; as a forked child must: whatever there was is the parent's."""
        self.stakes.clear()
        self.spares.begin()
        self._session: Session | None = None
        self._retired: list[int] = []
        self._unheard: deque[str] = deque()
        self._mutex = threading.Lock()

    def stake(self, holder: str, place: bytes) -> Stake:
        """What this holder has; a new one has nothing, and that place to go to."""
        return self.stakes.setdefault(holder, Stake(place))

    def farewell_unheard(self, holder: str, stake: Stake) -> None:
        """It wanted to give back all it has, and nobody knows whether it did. What is left ends by
        itself: it is kept in mind in case of another try, but not for ever."""
        self.stakes[holder] = stake
        stake.granted_at = NEVER
        if stake.session is not None:
            self.retire(stake.session)  # its place, if it is still there, must not stay
        if not stake.unheard:
            stake.unheard = True
            self._unheard.append(holder)
            if len(self._unheard) > MOST_UNHEARD:
                self.close_account(self._unheard.popleft())

    def close_account(self, holder: str) -> Stake | None:
        """This holder has nothing any more, or is about to give it back; what it had."""
        return self.stakes.pop(holder, None)

    @property
    def session(self) -> Session | None:
        """The present session, if there is one."""
        return self._session

    def open_session(self) -> Session:
        """The present session, or a new one that is yet to be granted."""
        with self._mutex:
            if self._session is None:
                self._session = Session()
            return self._session

    def retire(self, session: Session) -> None:
        """Keep it alive no more, and have its waiters go over to the next."""
        with self._mutex:
            if self._session is session:
                self._session = None
            self._retired = [*self._retired[-9:], session.lease]  # the older ones are dead
        self.call_over()

    def call_over(self) -> None:
        """Wake those whose places do not hang on the present session: they see to it."""
        for holder, stake in list(self.stakes.items()):
            if stake.session is not None and stake.session is not self._session:
                self._notify(holder)

    def anybody_waits(self) -> bool:
        """Whether anybody has a place in a queue, and wants to keep it."""
        stakes = list(self.stakes.values())
        return any(each.session is not None and not each.unheard for each in stakes)

    def end_sessions(self) -> list[int]:
        """Nobody waits any more: the leases that are to be revoked."""
        with self._mutex:
            session, self._session = self._session, None
            retired, self._retired = self._retired, []
        return [*retired, session.lease] if session is not None else retired

    def take_all(self) -> list[int]:
        """The client is closed: the leases that are to be revoked."""
        return [*self.end_sessions(), *self.spares.take_all()]

    def call(self, holder: str) -> None:
        """The one before this holder is gone."""
        stake = self.stakes.get(holder)
        if stake is not None:
            stake.called = True
        self._notify(holder)
