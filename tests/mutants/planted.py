"""The list of planted bugs, layer by layer."""

from tests.mutants.mutant import Mutant


def contract(engine: str, *parts: str) -> str:
    """Parts of the contract on one engine, in both colours."""
    files = " ".join(f"tests/contract/test_{part}.py" for part in parts)
    return f"{files} -k '[{engine}-'" if " " not in engine else f"{files} -k '{engine}'"


CORE = "tests/core"
SIMULATED_SQL = "tests/lab/test_simulator_sql.py -k promise"
CORE_ACQUIRE = "tests/core/test_acquire.py tests/core/test_acquire_instants.py"
VIRTUAL = "tests/drivers/test_punctuality.py"
QUORUM = (
    "tests/core/test_quorum.py tests/core/test_quorum_holding.py tests/core/test_quorum_network.py"
)
SCRIPTS = "tests/lab/test_script_rules.py tests/lab/test_simulator_scripts.py"
CLI = "tests/cli/test_exit_codes.py tests/cli/test_run.py tests/cli/test_operate.py"

PLANTED = [
    # core: acquiring
    Mutant(
        "validity counts from the reply",
        "core/acquire.py",
        "valid_until = min(began + ttl - runtime.drift(ttl), hold_until)",
        "valid_until = min(runtime.clock() + ttl - runtime.drift(ttl), hold_until)",
        CORE,
    ),
    Mutant(
        "no drift is taken off a grant",
        "core/acquire.py",
        "valid_until = min(began + ttl - runtime.drift(ttl), hold_until)",
        "valid_until = min(began + ttl, hold_until)",
        CORE,
    ),
    Mutant(
        "a grant that came too late is taken",
        "core/acquire.py",
        "            if runtime.clock() >= valid_until:\n                return None\n",
        "",
        CORE,
    ),
    Mutant(
        "a grant is taken by a closed client",
        "core/acquire.py",
        "            if runtime.closed:\n                raise ClientClosed\n",
        "",
        "tests/contract/test_closing.py tests/core -k 'memory or core or clos'",
    ),
    Mutant(
        "an interrupted acquire leaves its grant",
        "core/acquire.py",
        "        abandon(runtime, spec, holder)\n        raise",
        "        raise",
        CORE,
    ),
    Mutant(
        "one who gives up leaves its place",
        "core/acquire.py",
        "        if self.queued:\n            timeout",
        "        if False:\n            timeout",
        CORE,
    ),
    Mutant(
        "a wait has no end",
        "core/acquire.py",
        "            yield Wait(self.holder, until) if self.queue else Sleep(until)",
        "            yield Wait(self.holder, inf) if self.queue else Sleep(until)",
        CORE_ACQUIRE,
    ),
    Mutant(
        "what will not heal is tried again",
        "core/acquire.py",
        "        if heals_in == inf:",
        "        if False:",
        CORE,
    ),
    Mutant(
        "max_hold is forgotten",
        "core/acquire.py",
        "hold_until = inf if spec.max_hold is None else began + spec.max_hold",
        "hold_until = inf",
        CORE,
    ),
    # core: holding and renewing
    Mutant(
        "an extension counts from the reply",
        "core/holding.py",
        "lease.prolong(min(began + ttl - runtime.drift(ttl), lease.hold_until))",
        "lease.prolong(min(runtime.clock() + ttl - runtime.drift(ttl), lease.hold_until))",
        CORE,
    ),
    Mutant(
        "a late extension revives a lease",
        "core/holding.py",
        "        if runtime.clock() >= lease.valid_until:\n"
        "            mark_lost(runtime, lease, lease.why_expired())\n"
        "        elif type(answer) is NotYours:",
        "        if type(answer) is NotYours:",
        CORE,
    ),
    Mutant(
        "a refused extension is no loss",
        "core/holding.py",
        "        elif type(answer) is NotYours:\n            mark_lost(runtime, lease, TAKEN)\n",
        "",
        CORE,
    ),
    Mutant(
        "a lost lease is not released",
        "core/holding.py",
        "    release_later(runtime, lease.spec, lease.holder, was_held=True)\n",
        "",
        VIRTUAL,
    ),
    Mutant(
        "nobody is told of a loss",
        "core/holding.py",
        "    runtime.notify_lost(lease)\n",
        "",
        VIRTUAL,
    ),
    Mutant(
        "renewed after two thirds of the ttl",
        "core/holding.py",
        "        interval = lease.ttl / 3\n        step",
        "        interval = lease.ttl * 2 / 3\n        step",
        VIRTUAL,
    ),
    Mutant(
        "an end that is moved on may go back",
        "core/lease_state.py",
        "self.valid_until = max(self.valid_until, valid_until)",
        "self.valid_until = valid_until",
        CORE,
    ),
    Mutant(
        "held although its time is over",
        "core/lease_state.py",
        "return now < self.valid_until and self.status is HELD and",
        "return self.status is HELD and",
        CORE,
    ),
    Mutant(
        "a forked child holds its parent's lease",
        "core/lease_state.py",
        "return self.status if self._epoch == self._runtime.epoch else INHERITED",
        "return self.status",
        "tests/core tests/drivers/test_forks.py",
    ),
    Mutant(
        "pending releases are not sent",
        "core/renewal.py",
        "            yield from send_pending(runtime, until)\n",
        "",
        f"{VIRTUAL} tests/core",
    ),
    Mutant(
        "the watcher does not look at deadlines",
        "core/renewal.py",
        "            mark_lost(runtime, lease, lease.why_expired())\n",
        "            pass\n",
        VIRTUAL,
    ),
    Mutant(
        "a failed renewal is not tried again",
        "core/renewal.py",
        "            _retry(runtime, lease, answer)\n",
        "            pass\n",
        CORE,
    ),
    Mutant(
        "a failed release is not left to the renewer",
        "core/release.py",
        "        lease.release_failed = True\n        _leave_to_renewer(runtime, holder)\n",
        "        lease.release_failed = True\n        runtime.pending.confirm(holder)\n",
        CORE,
    ),
    Mutant(
        "a release of what is not ours is fine",
        "core/release.py",
        "if type(answer) is NotYours and not is_repetition:",
        "if False:",
        CORE,
    ),
    Mutant(
        "closing loses nothing",
        "core/release.py",
        "mark_lost(runtime, lease, lease.why_expired() if lease.is_lost(now) else CLOSED)",
        "lease.mark_released()",
        "tests/contract/test_closing.py tests/core -k 'memory or core or clos'",
    ),
    # drivers
    Mutant(
        "the boot clock is the monotonic one",
        "drivers/common.py",
        "time.CLOCK_BOOTTIME)",
        "time.CLOCK_MONOTONIC)",
        "tests/drivers/test_sleep.py",
    ),
    Mutant(
        "timers of threads are 0.8 s late",
        "drivers/threads.py",
        "min(until - clock(), threading.TIMEOUT_MAX)",
        "min(until - clock() + 0.8, threading.TIMEOUT_MAX)",
        VIRTUAL,
    ),
    Mutant(
        "timers of tasks are 0.8 s late",
        "drivers/aio.py",
        "inf else until - clock())",
        "inf else until - clock() + 0.8)",
        VIRTUAL,
    ),
    Mutant(
        "a callback that raises ends the others",
        "drivers/common.py",
        "except BaseException as error:  # noqa: BLE001 - a user's callback may raise anything",
        "except OSError as error:",
        "tests/contract/test_loss.py tests/drivers -k 'memory or callback'",
    ),
    Mutant(
        "a closed client of asyncio works on",
        "drivers/aio.py",
        "        if self.runtime.closed:\n            raise ClientClosed\n"
        "        self._belong_to_this_loop()",
        "        self._belong_to_this_loop()",
        contract("memory", "closing", "cleanup", "basic"),
    ),
    # memory
    Mutant(
        "memory: the fence stays",
        "engines/memory.py",
        "        if not mine:\n            row.fence += 1\n",
        "",
        contract("memory", "fences"),
    ),
    Mutant(
        "memory: an expired lease is extended",
        "engines/memory.py",
        "row.holder != request.holder or not row.is_held(now):",
        "row.holder != request.holder:",
        contract("memory", "store"),
    ),
    Mutant(
        "memory: an extension shortens",
        "engines/memory.py",
        "row.ends_at = max(row.ends_at, now + request.ttl)\n        return DONE",
        "row.ends_at = now + request.ttl\n        return DONE",
        contract("memory", "store"),
    ),
    Mutant(
        "memory: anybody can release",
        "engines/memory.py",
        "        if row.holder != holder:\n            return NOT_YOURS\n",
        "",
        contract("memory", "store", "loss"),
    ),
    Mutant(
        "memory: a newcomer overtakes those who wait",
        "engines/memory.py",
        "        if not row.is_held(now) and row.queue and row.queue[0] != request.holder:",
        "        if False:",
        contract("memory", "order"),
    ),
    # PostgreSQL
    Mutant(
        "PostgreSQL: an expired lease is extended",
        "engines/sql/postgres/commands.py",
        "WHERE name = :key AND holder = :holder AND NOT offered AND expires > {now}\nRETURNING 1",
        "WHERE name = :key AND holder = :holder AND NOT offered\nRETURNING 1",
        contract("postgres", "store"),
    ),
    Mutant(
        "PostgreSQL: an extension shortens",
        "engines/sql/postgres/commands.py",
        "    expires = greatest(least(expires, {now} + greatest(ttl, :ttl)), {now} + :ttl),\n"
        "    ttl = greatest(ttl, :ttl)\n",
        "    expires = {now} + :ttl, ttl = :ttl\n",
        contract("postgres", "store"),
    ),
    Mutant(
        "PostgreSQL: a new fence may be the old one",
        "engines/sql/postgres/commands.py",
        "ELSE greatest(fence + 1, {now}) END",
        "ELSE fence END",
        contract("postgres", "fences"),
    ),
    Mutant(
        "PostgreSQL: a held lock is taken over",
        "engines/sql/postgres/commands.py",
        "NOT queued AND (holder IS NULL OR expires <= {now}))\n            FOR NO KEY",
        "NOT queued)\n            FOR NO KEY",
        contract("postgres", "basic"),
    ),
    Mutant(
        "PostgreSQL: waiters are served last in, first out",
        "engines/sql/postgres/commands.py",
        "    (SELECT holder FROM {waiters} WHERE name = :key ORDER BY place LIMIT 1), CAST",
        "    (SELECT holder FROM {waiters} WHERE name = :key ORDER BY place DESC LIMIT 1), CAST",
        contract("postgres", "order"),
    ),
    Mutant(
        "PostgreSQL: a cell is set whatever its version",
        "engines/sql/postgres/commands.py",
        "WHERE key = :key AND version = :expect RETURNING 1",
        "WHERE key = :key AND :expect = :expect RETURNING 1",
        contract("postgres", "cells"),
    ),
    Mutant(
        "PostgreSQL: a clock that is set back lengthens a lease",
        "engines/sql/postgres/commands.py",
        "WHERE name = :key AND (expires > {now} + ttl OR holder = :holder AND offered)",
        "WHERE name = :key AND holder = :holder AND offered",
        "tests/engines/sql/test_clock.py -k 'back_by and postgres'",
    ),
    Mutant(
        "PostgreSQL: a waiter that gave up stays in the queue",
        "engines/sql/postgres/commands.py",
        '"leave": "DELETE FROM {waiters} WHERE holder = :holder"',
        '"leave": "DELETE FROM {waiters} WHERE holder = :holder AND false"',
        SIMULATED_SQL,
    ),
    Mutant(
        "PostgreSQL: a lock is granted to a client that gave up",
        "engines/sql/postgres/commands.py",
        "WHERE name = :key AND {now} < :deadline\n",
        "WHERE name = :key\n",
        SIMULATED_SQL,
    ),
    Mutant(
        "SQL: an interrupted request leaves its connection to the next one",
        "engines/sql/exchanges.py",
        "            if connection is not None:\n                self._drop(connection)\n",
        "            self._put_back(connection)\n",
        SIMULATED_SQL,
    ),
    # MariaDB
    Mutant(
        "MariaDB: an expired lease is extended",
        "engines/sql/mysql/commands.py",
        "WHERE name = :key AND holder = :holder AND NOT offered AND expires > {now}\n",
        "WHERE name = :key AND holder = :holder AND NOT offered\n",
        contract("mariadb", "store"),
    ),
    Mutant(
        "MariaDB: an extension shortens",
        "engines/sql/mysql/commands.py",
        "expires = GREATEST(LEAST(expires, {now} + ttl), {now} + :ttl)\nWHERE name = :key",
        "expires = {now} + :ttl\nWHERE name = :key",
        contract("mariadb", "store"),
    ),
    Mutant(
        "MariaDB: a new fence may be the old one",
        "engines/sql/mysql/commands.py",
        "IF({takes}, GREATEST(fence + 1, VALUES(fence)), fence)",
        "fence",
        contract("mariadb", "fences"),
    ),
    Mutant(
        "MariaDB: anybody can release",
        "engines/sql/mysql/commands.py",
        "WHERE name = :key AND holder = :holder AND NOT queued\n",
        "WHERE name = :key AND :holder = :holder AND NOT queued\n",
        contract("mariadb", "store"),
    ),
    # SQLite
    Mutant(
        "SQLite: an expired lease is extended",
        "engines/sql/sqlite/commands.py",
        "AND NOT offered AND (boot <> :boot OR expires > :now)\n        RETURNING 1",
        "AND NOT offered\n        RETURNING 1",
        contract("sqlite", "store"),
    ),
    Mutant(
        "SQLite: an extension shortens",
        "engines/sql/sqlite/commands.py",
        "CASE WHEN boot = :boot THEN max(expires, :now + :ttl) ELSE :now + :ttl END",
        ":now + :ttl",
        contract("sqlite", "store"),
    ),
    Mutant(
        "SQLite: a new fence may be the old one",
        "engines/sql/sqlite/commands.py",
        "ELSE max(fence, excluded.fence - 1) + 1 END",
        "ELSE fence END",
        contract("sqlite", "fences"),
    ),
    Mutant(
        "SQLite: a held lock is taken over",
        "engines/sql/sqlite/commands.py",
        "boot = excluded.boot AND expires <= excluded.expires - excluded.ttl",
        "boot = excluded.boot",
        contract("sqlite", "basic"),
    ),
    Mutant(
        "SQLite: a newcomer overtakes those who wait",
        "engines/sql/sqlite/commands.py",
        "WHERE holder = excluded.holder OR NOT queued AND (",
        "WHERE holder = excluded.holder OR (",
        "tests/engines/test_sqlite.py",
    ),
    Mutant(
        "PostgreSQL: a lost lease is extended along with another one on its name",
        "engines/sql/postgres/server.py",
        "[DONE if request.holder in done else NOT_YOURS for request in requests]",
        "[DONE if done else NOT_YOURS for request in requests]",
        contract("postgres", "store"),
    ),
    Mutant(
        "SQL: a waiter that leaves keeps its place",
        "engines/sql/commands.py",
        "self._statements(self._sql.leave, self._sql.free, key=key, holder=holder)",
        "self._statements(self._sql.look, self._sql.free, key=key, holder=holder)",
        contract("sqlite", "cleanup", "waiting"),
    ),
    Mutant(
        "SQL: the server's clock in the wrong unit",
        "engines/sql/commands.py",
        "        return max(0, remaining or 0) / MICROSECONDS, place or 0, is_mine",
        "        return max(0, remaining or 0) / 1000, place or 0, is_mine",
        contract("sqlite", "store"),
    ),
    # Redis: scripts
    Mutant(
        "Redis: an extension of another's lease",
        "engines/redis/scripts/extend.lua",
        "if owner == ARGV[i + 2] then",
        "if owner then",
        SCRIPTS,
    ),
    Mutant(
        "Redis: an extension shortens",
        "engines/redis/scripts/extend.lua",
        "if left < ttl then redis.call('PEXPIRE', KEYS[i], ttl) end",
        "redis.call('PEXPIRE', KEYS[i], ttl)",
        SCRIPTS,
    ),
    Mutant(
        "Redis: an extension brings back a lease",
        "engines/redis/scripts/extend.lua",
        "    results[#results + 1] = owner and 0 or -1\n",
        "    if not owner then redis.call('SET', KEYS[i], ARGV[i + 2], 'PX', ttl) end\n"
        "    results[#results + 1] = owner and 0 or 1\n",
        SCRIPTS,
    ),
    Mutant(
        "Redis: a fence that does not grow",
        "engines/redis/scripts/fence.lua",
        "math.max((last or 0) + 1, time",
        "math.max(last or 0, time",
        SCRIPTS,
    ),
    Mutant(
        "Redis: a raise that does not check the holder",
        "engines/redis/scripts/raise.lua",
        "if redis.call('GET', KEYS[1]) ~= ARGV[3] then return 0 end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "Redis: a raise lowers the counter",
        "engines/redis/scripts/raise.lua",
        "if last > tonumber(ARGV[1]) then return 0 end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "Redis: a repair overwrites another holder",
        "engines/redis/scripts/repair.lua",
        "ARGV[4], 'NX', 'PX', ARGV[1])",
        "ARGV[4], 'PX', ARGV[1])",
        SCRIPTS,
    ),
    Mutant(
        "Redis: a release passes nothing on",
        "engines/redis/scripts/release.lua",
        "if not pass_on(first, ARGV[2], ARGV[1]) then redis.call('DEL', KEYS[1]) end",
        "redis.call('DEL', KEYS[1])",
        SCRIPTS + " " + contract("redis", "order"),
    ),
    Mutant(
        "Redis: a grant that is asked for again gets another fence",
        "engines/redis/scripts/again.lua",
        "  if not fence then return next_fence(counter, 0, keep) end\n",
        "  if true then return next_fence(counter, 0, keep) end\n",
        contract("redis", "store"),
    ),
    # the quorum
    Mutant(
        "quorum: one vote too few is enough",
        "core/quorum.py",
        "self.size = len(self.names) // 2 + 1",
        "self.size = len(self.names) // 2",
        QUORUM,
    ),
    Mutant(
        "quorum: the least counter is the fence",
        "core/quorum.py",
        "    return max(grants)",
        "    return min(grants)",
        QUORUM + " tests/lab/test_model_fences.py",
    ),
    Mutant(
        "quorum: any counter commits a fence",
        "core/quorum.py",
        "return list(counters).count(token) >= quorum",
        "return len(list(counters)) >= quorum",
        QUORUM + " tests/lab/test_model_fences.py",
    ),
    Mutant(
        "quorum: a vote that failed is not released",
        "core/quorum.py",
        "yield from self._release_attempt(request.key, name, fan_out, now + request_timeout)",
        "pass",
        QUORUM,
    ),
    Mutant(
        "quorum: all attempts of a holder have one name",
        "core/attempt.py",
        'return f"{holder}{MARK}{tries}" if tries else holder',
        "return holder",
        QUORUM,
    ),
    Mutant(
        "quorum: validity is not checked after the vote",
        "core/quorum.py",
        "if agreed and self.clock() - began < request.ttl - self.drift(request.ttl):",
        "if agreed:",
        QUORUM,
    ),
    Mutant(
        "quorum: a node in quarantine votes for an extension",
        "core/quorum.py",
        "mine += self.guards[node].quarantined_until <= began",
        "mine += 1",
        QUORUM,
    ),
    Mutant(
        "quorum: a lease is repaired that was released",
        "core/quorum.py",
        "return request.holder in self._extending and self.clock() < ends_at",
        "return self.clock() < ends_at",
        QUORUM,
    ),
    # etcd
    Mutant(
        "etcd: the fence is always 1",
        "engines/etcd/locks.py",
        "            return Granted(claim.revision)\n        [first]",
        "            return Granted(1)\n        [first]",
        contract("etcd", "fences"),
    ),
    Mutant(
        "etcd: a held lock is granted",
        "engines/etcd/locks.py",
        "        yield from self.revoke(self._registry.take_unused())\n        return HELD",
        "        return Granted(1)",
        contract("etcd", "basic"),
    ),
    Mutant(
        "etcd: a place that is gone is a grant",
        "engines/etcd/locks.py",
        "        if not claim.revision or not self._watch(claim, before, reply.header.revision):\n"
        "            return None",
        "        if not claim.revision or not self._watch(claim, before, reply.header.revision):\n"
        "            return Granted(reply.header.revision)",
        "tests/engines/etcd/test_queue.py",
    ),
    Mutant(
        "etcd: an expired claim is extended",
        "engines/etcd/locks.py",
        "return claim if now < claim.ends_at < inf else None",
        "return claim",
        "tests/engines/etcd/test_sessions.py",
    ),
    Mutant(
        "etcd: a waiter joins the queue with a session that is about to end",
        "engines/etcd/locks.py",
        "        if session.is_due(now) and not (yield",
        "        if not session.granted and not (yield",
        "tests/lab/test_simulator_etcd.py",
    ),
    # ZooKeeper
    Mutant(
        "ZooKeeper: the fence is always 1",
        "engines/zookeeper/locks.py",
        "        return Granted(claim.fence, ttl=ttl)",
        "        return Granted(1, ttl=ttl)",
        contract("zookeeper", "fences"),
    ),
    Mutant(
        "ZooKeeper: the last in the queue is the first",
        "engines/zookeeper/commands.py",
        "return sorted(places, key=lambda p: ((p.number - somewhere + HALF) % ALL, p.name))",
        "return sorted(places, key=lambda p: (-((p.number - somewhere + HALF) % ALL), p.name))",
        "tests/engines/zookeeper/test_commands.py " + contract("zookeeper", "basic"),
    ),
    Mutant(
        "ZooKeeper: a place whose session has ended is a grant",
        "engines/zookeeper/locks.py",
        "        if claim.session.id != claim.owner:\n            return None\n        ttl",
        "        ttl",
        "tests/lab/test_simulator_zookeeper.py",
    ),
    Mutant(
        "ZooKeeper: a place is not found again after a lost reply",
        "engines/zookeeper/locks.py",
        "        mine = [place for place in in_order(names) if place.secret == secret]",
        "        mine = []",
        "tests/lab/test_simulator_zookeeper.py",
    ),
    Mutant(
        "ZooKeeper: what one server has acknowledged is known to the leader",
        "engines/zookeeper/sessions.py",
        "while self._answered and self._answered[0][1] <= sent_at - self._terms.tick:",
        "while self._answered and self._answered[0][1] <= sent_at:",
        "tests/engines/zookeeper/test_sessions.py",
    ),
    # the command line
    Mutant(
        "cli: a lock that is held is exit code 0",
        "cli/exits.py",
        "CONFLICT = 75",
        "CONFLICT = 0",
        CLI,
    ),
    Mutant(
        "cli: a lost lease is exit code 0",
        "cli/exits.py",
        "LOST = 70",
        "LOST = 0",
        "tests/cli/test_loss.py tests/cli/test_exit_codes.py",
    ),
]
