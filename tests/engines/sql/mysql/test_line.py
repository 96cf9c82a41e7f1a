"""Those of one client who wait for the same name: only the first of them asks the server."""

from holdfast.core.messages import DONE, NOT_YOURS, Acquire, Granted, Release
from holdfast.engines.sql.mysql.line import BEHIND, LONGEST_PAUSE, Line


class Waiters:
    """A line, and who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.line = Line(self.woken.append)

    def asks(self, holder: str, remaining: float = 1000.0, key: str = "job") -> float:
        """Somebody has found the lock held; gives how long they wait."""
        return self.line.pause(Acquire(key, holder, 30.0, queue=True), remaining)

    def gets(self, holder: str) -> None:
        self.line.note(Acquire("job", holder, 30.0, queue=True), Granted(1))

    def leaves(self, holder: str) -> None:
        self.line.note(Release("job", holder), NOT_YOURS)


def test_the_first_asks_ever_less_often_and_the_others_hardly() -> None:
    crowd = Waiters()
    pauses = [crowd.asks("ann") for _ in range(50)]
    assert pauses[0] < 0.05
    assert all(LONGEST_PAUSE / 2 <= pause <= LONGEST_PAUSE for pause in pauses[10:])
    assert len(set(pauses[10:])) > 1, "never in step with others"
    assert BEHIND / 2 <= crowd.asks("ben") <= BEHIND
    assert crowd.asks("cleo", key="another") < 0.05, "the first for another name"


def test_the_first_asks_when_the_holders_time_is_over() -> None:
    crowd = Waiters()
    for _ in range(20):
        crowd.asks("ann")
    pauses = [crowd.asks("ann", remaining=0.4) for _ in range(50)]
    assert all(0.4 <= pause <= 0.5 for pause in pauses)


def test_whoever_gets_it_wakes_the_next() -> None:
    crowd = Waiters()
    for holder in ("ann", "ben", "cleo"):
        crowd.asks(holder)
    crowd.gets("ann")
    assert crowd.woken == ["ben"]
    assert crowd.asks("ben") < 0.05, "it is the first now"
    assert crowd.asks("cleo") >= BEHIND / 2


def test_whoever_gives_up_wakes_the_next_if_it_was_the_first() -> None:
    crowd = Waiters()
    for holder in ("ann", "ben", "cleo"):
        crowd.asks(holder)
    crowd.leaves("cleo")
    assert crowd.woken == []
    crowd.leaves("ann")
    assert crowd.woken == ["ben"]
    crowd.leaves("ben")
    assert crowd.woken == ["ben"], "nobody is left"


def test_a_release_in_this_client_wakes_the_first() -> None:
    crowd = Waiters()
    crowd.asks("ann")
    crowd.asks("ben")
    crowd.line.note(Release("job", "zoe"), DONE)
    assert crowd.woken == ["ann"]


def test_a_forked_child_has_no_waiters() -> None:
    crowd = Waiters()
    crowd.asks("ann")
    crowd.line.forget()
    crowd.line.note(Release("job", "zoe"), DONE)
    assert crowd.woken == []
