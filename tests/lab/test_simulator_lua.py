"""Lua scripts run on a virtual server as on a real one: what they are given, and what they give."""

from collections.abc import Iterator
from functools import partial

import pytest

from holdfast.engines.redis.protocol import command
from holdfast.lab.servers.redis import RedisServer
from holdfast.lab.simulator.redis.keyspace import CommandError, Keyspace, perform
from holdfast.lab.simulator.redis.server import ScriptError, scripts
from tests.engines.redis.party import Bare

KEYS = [b"text", b"set", b"none"]
ARGV = [b"7", b"7.9", b"word"]

ALIKE = """
return nil
return false
return true
return 3.99
return -3.99
return 1763206000123456
return ''
return ARGV[3] .. #KEYS .. #ARGV
return {1, false, 'x', {2, {}}, true}
return {1, nil, 3}
return {ok = 'FINE'}
return redis.call('GET', KEYS[1])
return redis.call('get', KEYS[3])
return redis.call('GET', KEYS[3]) == false
return type(redis.call('SET', KEYS[3], 5, 'PX', 5000))
return redis.call('SET', KEYS[1], 'other', 'NX')
return redis.call('SET', KEYS[1], 'other', 'NX') == false
return redis.call('SET', KEYS[3], 'other', 'NX', 'PX', '5000')
return {redis.call('SET', KEYS[3], 1.5), redis.call('GET', KEYS[3]), redis.call('PTTL', KEYS[3])}
return {redis.call('SET', KEYS[3], 2^52 + 1), redis.call('GET', KEYS[3])}
return {redis.call('SET', KEYS[1], 'kept', 'KEEPTTL'), redis.call('PTTL', KEYS[1]) > 0}
return {redis.call('SET', KEYS[1], 'forever'), redis.call('PTTL', KEYS[1])}
return redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[1])
return {redis.call('DEL', KEYS[1], KEYS[3]), redis.call('DEL', KEYS[1])}
return {redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[3])}
return {redis.call('PEXPIRE', KEYS[2], ARGV[1] * 1000), redis.call('PEXPIRE', KEYS[3], 5)}
return {redis.call('PEXPIRE', KEYS[2], -1), redis.call('EXISTS', KEYS[2])}
return {redis.call('PEXPIRE', KEYS[3], 0), redis.call('PEXPIRE', KEYS[2], '0')}
return redis.call('ZADD', KEYS[2], 'NX', 1763206000123456, 'late')
return redis.call('ZADD', KEYS[2], 'NX', 9, 'b')
return redis.call('ZRANGE', KEYS[2], 0, -1)
return redis.call('ZRANGE', KEYS[2], '1', '9')
return redis.call('ZRANGE', KEYS[2], -2, -2)
return redis.call('ZRANGE', KEYS[3], 0, -1)
return {redis.call('ZSCORE', KEYS[2], 'late'), redis.call('ZSCORE', KEYS[2], 'b')}
return redis.call('ZSCORE', KEYS[2], 'none') == false
return redis.call('ZSCORE', KEYS[3], 'none') == false
return {redis.call('ZREM', KEYS[2], 'a', 'z'), redis.call('ZREM', KEYS[3], 'a')}
return {redis.call('ZREM', KEYS[2], 'a', 'b', 'c'), redis.call('EXISTS', KEYS[2])}
return redis.call('PUBLISH', 'none', 'x')
return redis.call('PUBSUB', 'NUMSUB', 'none')
return {type(redis.call('TIME')[1]), #redis.call('TIME')}
return string.format('%.0f', 2^53) .. tostring(1e15) .. string.match('c1 me', '^(%S+) ')
return {math.max(1, 2), select('#', 1, nil), tonumber('x') == nil}
""".strip().splitlines()

WRONG = """
return redis.call('GET')
return redis.call('GET', nil)
return redis.call('GET', true)
return redis.call('GET', KEYS[2])
return redis.call('ZREM', KEYS[1], 'x')
return redis.call('SET', KEYS[1], 'x', 'PX', '0')
return redis.call('SET', KEYS[1], 'x', 'PX', '1.5')
return redis.call('PEXPIRE', KEYS[1], 'soon')
return redis.call('NOSUCH', KEYS[1])
return KEYS[4] .. 'x'
return nowhere
kept = 1
return )
""".strip().splitlines()


class Deaf:
    def publish(self, channel: bytes, message: bytes) -> int:
        return 0

    def listeners(self, channel: bytes) -> int:
        return 0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def bare(server: RedisServer) -> Iterator[Bare]:
    connection = Bare(server)
    yield connection
    connection.close()


def on_a_real_server(bare: Bare, source: str) -> object:
    commands = [[b"FLUSHALL"], [b"SET", KEYS[0], b"there", b"PX", b"60000"]]
    commands += [[b"ZADD", KEYS[1], b"%d" % score, name] for score, name in members()]
    for words in commands:
        bare._socket.sendall(command(*words))
        bare.reply()
    bare._socket.sendall(command(b"EVAL", source.encode(), b"3", *KEYS, *ARGV))
    return bare.reply()


def on_a_virtual_one(source: str) -> object:
    data = Keyspace(lambda: 1.0, Deaf())
    data.set(KEYS[0], b"there", b"PX", b"60000")
    for score, name in members():
        data.zadd(KEYS[1], b"%d" % score, name)
    return scripts().run(source.encode(), 3, [*KEYS, *ARGV], partial(perform, data))


def members() -> list[tuple[int, bytes]]:
    return [(2, b"b"), (2, b"a"), (3, b"c")]


@pytest.mark.slow
@pytest.mark.parametrize("source", ALIKE)
def test_a_script_gives_the_same(source: str, bare: Bare) -> None:
    assert on_a_virtual_one(source) == on_a_real_server(bare, source)


@pytest.mark.slow
@pytest.mark.parametrize("source", WRONG)
def test_what_is_an_error_is_an_error_here_too(source: str, bare: Bare) -> None:
    assert isinstance(on_a_real_server(bare, source), Exception)
    with pytest.raises((ScriptError, CommandError)):
        on_a_virtual_one(source)


def test_a_script_without_an_end_is_an_error() -> None:
    with pytest.raises(ScriptError, match="too long"):
        on_a_virtual_one("while true do end")


def test_nothing_is_kept_between_two_scripts() -> None:
    with pytest.raises(ScriptError, match="readonly"):
        on_a_virtual_one("KEPT = 1")
    with pytest.raises(ScriptError, match="nonexistent"):
        on_a_virtual_one("return KEPT")
