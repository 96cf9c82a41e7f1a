"""The Lua scripts, each against the plain Python that says what it should do."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import isclose
from random import Random

import pytest

from holdfast.core.messages import (
    DONE,
    MISSING,
    NOT_YOURS,
    Acquire,
    Answer,
    Break,
    Extend,
    Failed,
    Granted,
    Held,
    Inspect,
    List,
    Listing,
    Raise,
    Release,
    Repair,
    Seen,
    ToNode,
    attempt_id,
    undoing,
)
from holdfast.engines.memory import Table
from holdfast.engines.redis.commands import Commands
from holdfast.lab.servers.redis import RedisServer
from tests.core.votes import EPOCH, Votes
from tests.engines.redis.conftest import Invite
from tests.engines.redis.party import Bare

HOLDERS = [f"host/1/program/{32 * letter}" for letter in "abcdef"]
KEYS = ["job", "j{o}b", "100%", "späte Ärgernisse"]
TTLS = [50.0, 100.0, 1000.0]


@pytest.fixture
def listener(server: RedisServer) -> Iterator[Bare]:
    """Somebody who hears the wake-ups."""
    connection = Bare(server)
    connection._socket.sendall(b"SUBSCRIBE bare:channel\r\n")
    connection.reply()
    yield connection
    connection.close()


def messages(listener: Bare) -> list[str]:
    """All that it has heard since the last time."""
    listener._socket.sendall(b"PING\r\n")  # answered behind whatever was published before
    words: list[str] = []
    while (reply := listener.reply())[0] != b"pong":
        words.append(reply[2].decode())
    return words


def server_time(server: RedisServer) -> float:
    match server.command("TIME"):
        case [seconds, micros]:
            return int(str(seconds)) + int(str(micros)) / 1e6
    raise AssertionError("no time")


def alike(a: Answer, b: Answer) -> bool:
    """Whether two answers are the same, but for the moments between them."""
    if isinstance(a, Held) and isinstance(b, Held):
        return isclose(a.remaining, b.remaining, abs_tol=10) and replace(a, remaining=0.0) == (
            replace(b, remaining=0.0)
        )
    if isinstance(a, Listing) and isinstance(b, Listing):
        return len(a.leases) == len(b.leases) and all(
            isclose(x.remaining, y.remaining, abs_tol=10)
            and replace(x, remaining=0.0) == replace(y, remaining=0.0)
            for x, y in zip(a.leases, b.leases, strict=True)
        )
    return a == b


def any_request(random: Random, fences: list[int], now: float) -> ToNode:
    key, holder, ttl = random.choice(KEYS[:2]), random.choice(HOLDERS), random.choice(TTLS)
    near = int((now + random.uniform(-50, 50)) * 1e6)
    fence = random.choice([near, *fences[-3:]]) + random.choice([-1, 0, 0, 1])
    tries = random.choice([0, 0, 0, 1, 2])
    name = attempt_id(holder, tries)
    match random.randrange(11):
        case 0 | 1 | 2 | 3:
            return Acquire(key, name, ttl, random.random() < 0.5, fence)
        case 4 | 5:
            name = random.choice([name, undoing(holder, tries)])
            return Release(key, name, random.random() < 0.5)
        case 6:
            return Extend(key, name, ttl, fence)
        case 7:
            return Raise(key, name, fence)
        case 8:
            return Repair(key, name, ttl, fence)
        case 9:
            return Inspect(key) if random.random() < 0.5 else List("", "", random.choice([1, 10]))
        case _:
            return Break(key)


@pytest.mark.parametrize("seed", range(8))
def test_a_node_of_a_quorum_does_what_the_model_does(
    seed: int, server: RedisServer, bare: Bare, listener: Bare
) -> None:
    random, model, fences = Random(seed), Votes(), list[int]()
    woken: list[tuple[str, str]] = []
    kinds = set[tuple[type, type]]()
    offset = server_time(server) - EPOCH  # the model's clock stands, and nothing expires by itself
    for _ in range(250):
        if random.random() < 0.05:
            key = random.choice(KEYS[:2])
            server.command("DEL", key)
            if key in model.rows:
                model.rows[key].ends_at = offset  # it has just expired
        request = any_request(random, fences, EPOCH + offset)
        expected, [answer] = model.answer(request, offset), bare.ask(request)
        assert alike(answer, expected), (seed, request, answer, expected)
        kinds.add((type(request), type(answer)))
        if isinstance(answer, Granted):
            fences.append(answer.fence)
        for holder, delay in model.to_wake:
            message = f"{holder} {delay * 1000:.0f}" if delay else holder
            woken.append((message, listener.reply()[2].decode()))
        model.to_wake.clear()
    assert all(expected == heard for expected, heard in woken)
    assert len(kinds) > 10
    assert len(woken) > 3


def test_of_many_waiters_two_are_woken_at_once_and_two_a_little_later(
    server: RedisServer, bare: Bare, listener: Bare
) -> None:
    bare.ask(Acquire("job", "me", 10.0))
    for number in range(6):
        bare.ask(Acquire("job", f"w{number}", 10.0, queue=True))
    assert list(bare.ask(Release("job", "me"))) == [DONE]
    woken = [listener.reply()[2].decode() for _ in range(4)]
    assert woken == ["w0", "w1", "w2 500", "w3 500"]
    assert server.command("ZRANGE", "{job}:queue", 0, -1) == ["bare:channel w4", "bare:channel w5"]


@pytest.mark.parametrize("seed", range(4))
def test_a_single_server_does_what_the_reference_does(
    seed: int, server: RedisServer, listener: Bare
) -> None:
    """But for the fences, which are a clock here and a count there."""
    random, table = Random(seed), Table()
    single = Bare(server, quorum=False)
    single.commands = Commands(quorum=False, keep=3600.0, channel="bare:channel", offer=60.0)
    fences: list[tuple[int, int]] = []
    for step in range(200):
        key, holder = "job", random.choice(HOLDERS)
        request: Acquire | Release | Extend | Break | Inspect
        match random.randrange(8):
            case 0 | 1 | 2:
                request = Acquire(key, holder, 100.0, queue=random.random() < 0.7)
            case 3 | 4:
                request = Release(key, holder)
            case 5:
                request = Extend(key, holder, 100.0)
            case 6:
                request = Inspect(key)
            case _:
                request = Break(key)
        expected, [answer] = table.answer(request, 0.0), single.ask(request)
        assert type(answer) is type(expected), (seed, step, request, answer, expected)
        if isinstance(answer, Granted) and isinstance(expected, Granted):
            fences.append((expected.fence, answer.fence))
        if isinstance(answer, Listing) and isinstance(expected, Listing):
            ours = [(seen.holder, seen.waiters) for seen in answer.leases]
            assert ours == [(seen.holder, seen.waiters) for seen in expected.leases]
        # The one behind is of the same process, and guards nothing. But when somebody has got the
        # lock, it is told to get ready.
        heard = [message.partition(" ")[0] for message in messages(listener)]
        assert heard[:1] == table.to_wake[:1] or (
            not table.to_wake and heard == list(table.rows["job"].queue)[:1]
        )
        table.to_wake.clear()
    single.close()
    # Equal where the reference's are equal, and greater where they are greater.
    for (a, x), (b, y) in pairwise(fences):
        assert (a < b, a == b) == (x < y, x == y)
    assert len(set(fences)) > 10


KINDS = dict(zip(HOLDERS, (1, 0, 0, 2, 2, 2), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_a_shared_lock_does_what_the_reference_does(
    seed: int, server: RedisServer, listener: Bare
) -> None:
    """With waiters of several kinds; whoever is woken is seen as a member at once."""
    random, table = Random(seed), Table()
    single = Bare(server, quorum=False)
    single.commands = Commands(quorum=False, keep=3600.0, channel="bare:channel", offer=60.0)
    most = 0
    for step in range(250):
        key, holder = "job", random.choice(HOLDERS)
        request: Acquire | Release | Extend | Break
        match random.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                queue = random.random() < 0.8
                request = Acquire(key, holder, 100.0, queue, shares=KINDS[holder])
            case 5 | 6 | 7:
                request = Release(key, holder)
            case 8:
                request = Extend(key, holder, 100.0)
            case _:
                request = Break(key, random.choice(["", holder]))
        expected, [answer] = table.answer(request, 0.0), single.ask(request)
        assert type(answer) is type(expected), (seed, step, request, answer, expected)
        looked, [found] = table.answer(Inspect(key), 0.0), single.ask(Inspect(key))
        assert isinstance(looked, Listing)
        assert isinstance(found, Listing)
        assert [who(seen) for seen in found.leases] == [who(seen) for seen in looked.leases]
        most = max([most, *(len(seen.others) for seen in found.leases)])
    single.close()
    assert most > 0, "several have shared it"


def test_an_older_client_hands_the_lock_to_a_reader_as_to_anybody(server: RedisServer) -> None:
    """It knows nothing of shares, so the reader holds it alone."""
    single, (ann, ben, cleo) = Bare(server, quorum=False), HOLDERS[:3]
    assert isinstance(single.ask(Acquire("job", ann, 10.0))[0], Granted)
    reading = Acquire("job", ben, 10.0, queue=True, shares=0)
    assert isinstance(single.ask(reading)[0], Held)
    server.command("ZREM", "{job}:queue", f"bare:channel {ben}")
    server.command("SET", "job", ben, "PX", 500)
    assert isinstance(single.ask(reading)[0], Granted)
    assert isinstance(single.ask(Acquire("job", cleo, 10.0, shares=0))[0], Held)
    assert list(single.ask(Extend("job", ben, 10.0))) == [DONE]
    assert list(single.ask(Release("job", ben))) == [DONE]
    assert server.command("EXISTS", "job", "{job}:queue", "{job}:queue:kinds") == 0
    single.close()


def test_other_clients_see_a_shared_lock_as_taken(server: RedisServer) -> None:
    single, (ann, ben) = Bare(server, quorum=False), HOLDERS[:2]
    for holder in (ann, ben):
        assert isinstance(single.ask(Acquire("job", holder, 10.0, shares=0))[0], Granted)
    assert server.command("SET", "job", "theirs", "NX", "PX", 1000) is None
    assert list(single.ask(Release("job", ann))) == [DONE]
    assert server.command("SET", "job", "theirs", "NX", "PX", 1000) is None
    assert list(single.ask(Release("job", ben))) == [DONE]
    assert server.command("EXISTS", "job", "{job}:members", "{job}:queue") == 0
    assert server.command("SET", "job", "theirs", "NX", "PX", 1000) == "OK"
    assert isinstance(single.ask(Acquire("job", ann, 10.0, shares=0))[0], Held)
    single.close()


def who(seen: Seen) -> tuple[int, list[str], int | None]:
    return seen.shares, sorted([seen.holder, *(holder for holder, _ in seen.others)]), seen.waiters


def test_who_gets_it_waits_no_more(server: RedisServer, bare: Bare) -> None:
    fence = 1_763_186_839_123_457
    bare.ask(Acquire("job", "me", 10.0))
    bare.ask(Acquire("job", "you", 10.0, queue=True))
    assert server.command("ZCARD", "{job}:queue") == 1
    server.command("DEL", "job")
    [grant] = bare.ask(Acquire("job", "you", 10.0, queue=True, proposed=fence + 1))
    assert isinstance(grant, Granted)
    assert server.command("EXISTS", "{job}:queue") == 0


def test_only_waiters_that_still_listen_are_counted(server: RedisServer, bare: Bare) -> None:
    bare.ask(Acquire("job", "me", 10.0))
    bare.ask(Acquire("job", "you", 10.0, queue=True))
    [listing] = bare.ask(Inspect("job"))
    assert isinstance(listing, Listing)
    assert [seen.waiters for seen in listing.leases] == [0]


def test_a_lock_whose_counter_is_gone_is_seen_without_a_fence(
    server: RedisServer, bare: Bare
) -> None:
    bare.ask(Acquire("job", "me", 10.0))
    server.command("DEL", "{job}:fence")
    [listing] = bare.ask(Inspect("job"))
    assert isinstance(listing, Listing)
    assert [(seen.holder, seen.fence) for seen in listing.leases] == [("me", 0)]


def test_scripts_that_the_server_has_dropped_are_loaded_again(
    server: RedisServer, bare: Bare
) -> None:
    [grant] = bare.ask(Acquire("job", "me", 10.0))
    for requests, answer in (
        ([Acquire("job", "me", 10.0)], grant),
        ([Extend("job", "me", 10.0)], DONE),
        ([Raise("job", "me", 2 * 10**15)], Granted(2 * 10**15)),
        ([Repair("job", "me", 10.0, 1)], DONE),
        ([Release("job", "me")], DONE),
        ([Break("job")], MISSING),
        ([Inspect("job")], Listing(())),
        ([List("", "", 10)], Listing(())),
    ):
        server.command("SCRIPT", "FLUSH")
        assert list(bare.ask(*requests)) == [answer]


def test_many_releases_at_once_are_each_carried_out_once_though_no_script_is_loaded(
    server: RedisServer, bare: Bare
) -> None:
    for number in range(3):
        bare.ask(Acquire(f"job{number}", "me", 10.0))
    server.command("SCRIPT", "FLUSH")
    answers = bare.ask(*(Release(f"job{number}", "me") for number in range(4)))
    assert list(answers) == [DONE, DONE, DONE, MISSING]


def test_more_leases_than_fit_into_a_call_are_extended_in_order(bare: Bare) -> None:
    for number in range(0, 450, 3):
        bare.ask(Acquire(f"job{number}", "me" if number % 2 else "them", 10.0))
    answers = bare.ask(*(Extend(f"job{number}", "me", 20.0) for number in range(450)))
    for number, answer in enumerate(answers):
        expected = MISSING if number % 3 else DONE if number % 2 else NOT_YOURS
        assert answer == expected, number


def test_a_server_whose_memory_is_full_renews_what_is_held(
    server: RedisServer, invite: Invite
) -> None:
    ann, ben = invite(server.url), invite(f"{server.url}?protocol=getset")
    leases = [(ann, ann.takes("door")), (ann, ann.reads("hall")), (ben, ben.takes("gate"))]
    server.command("CONFIG", "SET", "maxmemory", 1)
    try:
        assert "OOM" in ann.refused("another")[server.address]
        for party, lease in leases:
            party(lease.extend, ttl=50)
            assert lease.remaining() > 40
            party(lease.release)
    finally:
        server.command("CONFIG", "SET", "maxmemory", 0)


def test_what_is_not_a_lock_is_an_error_and_stays(server: RedisServer, bare: Bare) -> None:
    server.command("HSET", "job", "field", "1")
    for request in (Acquire("job", "me", 1.0), Extend("job", "me", 1.0), Release("job", "me")):
        [answer] = bare.ask(request)
        assert isinstance(answer, Failed)
        assert "WRONGTYPE" in str(answer)
    assert server.command("HGET", "job", "field") == "1"
