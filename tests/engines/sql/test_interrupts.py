"""A Ctrl-C at every line of saying a statement and hearing its answer, on real servers: whatever is
asked next gets its own answer, and nothing is left of what was interrupted."""

import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast.core.messages import DONE, Acquire, Answer, Failed, Granted, Inspect, Listing, Release
from holdfast.core.ports import Store, StoreHost
from holdfast.engines import open_engine
from holdfast.engines.sql import blocking, wired
from holdfast.engines.sql.mysql import lent as mysql_lent
from holdfast.engines.sql.mysql import packets
from holdfast.engines.sql.mysql import wire as mysql_wire
from holdfast.engines.sql.pools import desk, errand
from holdfast.engines.sql.pools import store as lent_store
from holdfast.engines.sql.postgres import lent as postgres_lent
from holdfast.engines.sql.postgres import wire as postgres_wire
from holdfast.options import read_options
from tests.contract.mysql_places import mariadb_place
from tests.contract.place import Place
from tests.contract.sql_places import postgres_place
from tests.engines.sql.lenders import Lend

pytestmark = pytest.mark.slow

AROUND = StoreHost(time.monotonic, lambda holder: None, lambda event: None)
OURS = (
    blocking, desk, errand, lent_store, wired, packets, mysql_lent, mysql_wire, postgres_lent,
    postgres_wire,
)  # fmt: skip
STRUCK = {module.__file__ for module in (*OURS, queue, threading)}
PLACES: dict[str, Callable[[Path], Place]] = {"postgres": postgres_place, "mariadb": mariadb_place}


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = PLACES[request.param](tmp_path).url
    options = read_options(url, prefix=None, ttl=None, retry=None, engine={})
    store = open_engine(options.url, options.engine).connect(AROUND)
    yield store
    store.close()


@contextmanager
def struck_at(line: int) -> Iterator[None]:
    """Raises a KeyboardInterrupt before that line, of those that are carried out from here on."""
    lines = itertools.count()

    def strike(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in STRUCK:
            return None
        if event == "line" and next(lines) == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return strike

    before = sys.gettrace()
    sys.settrace(strike)
    try:
        yield
    finally:
        sys.settrace(before)


def ask(store: Store, request: Any) -> Answer:
    """As the core does: once more, if a connection was lost."""
    [answer] = store.ask([request], time.monotonic() + 10)
    if isinstance(answer, Failed):
        [answer] = store.ask([request], time.monotonic() + 10)
    return answer


@pytest.mark.parametrize(
    ("is_new", "step"), [(True, 7), (False, 1)], ids=["a first statement", "a later one"]
)
def test_at_every_line(store: Store, is_new: bool, step: int) -> None:
    """For a first statement, a connection is made, and it is prepared: of all that, some lines."""
    assert isinstance(ask(store, Acquire("warm", "ann", 60.0)), Granted)
    for line in itertools.count(step=step):
        if is_new:
            store.forget()  # its connections, as a forked child does
        try:
            with struck_at(line):
                ask(store, Acquire("job", "ben", 60.0))
        except KeyboardInterrupt:
            ask(store, Release("job", "ben"))
        else:
            break
        assert ask(store, Inspect("job")) == Listing(()), f"line {line}"
        granted = ask(store, Acquire("job", "cleo", 60.0))
        seen = ask(store, Inspect("job"))
        assert isinstance(seen, Listing)
        [lease] = seen.leases
        assert (lease.holder, granted) == ("cleo", Granted(lease.fence)), f"line {line}"
        assert ask(store, Release("job", "cleo")) == DONE
    assert line > 10, "it was struck at all"


@pytest.mark.parametrize("lender", ["psycopg", "SQLAlchemy psycopg", "SQLAlchemy pymysql"])
@pytest.mark.parametrize("is_new", [True, False], ids=["a first statement", "a later one"])
def test_over_the_only_connection_of_a_pool(lend: Lend, is_new: bool) -> None:
    """One that got lost on its way would be missed at once."""
    user = lend(1)
    before = user.session()
    store = user.store()
    try:
        assert isinstance(ask(store, Acquire("warm", "ann", 60.0)), Granted)
        for line in itertools.count():
            if is_new:
                store.close()
                store = user.store()
            try:
                with struck_at(line):
                    ask(store, Acquire("job", "ben", 60.0))
            except KeyboardInterrupt:
                ask(store, Release("job", "ben"))
            else:
                break
            assert ask(store, Inspect("job")) == Listing(()), f"line {line}"
        assert line > 5, "it was struck at all"
    finally:
        store.close()
    user.settles_at(0)
    assert user.session() == before
