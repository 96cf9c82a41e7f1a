"""The simulator: each rule of the observer can fail. The core is broken, and the rule notices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from holdfast.core import acquire, holding, renewal
from holdfast.core.acquire import Contender
from holdfast.core.effects import Sleep, Steps
from holdfast.core.fanout import FanOut, Rounds
from holdfast.core.lease_state import HELD, LeaseState
from holdfast.core.messages import DONE, Answer, Failed, Granted, Release, Repair
from holdfast.core.quorum import Quorum
from holdfast.core.runtime import Runtime
from holdfast.engines.etcd.registry import Registry
from holdfast.lab.simulator import Setup, client, draw, play, run
from holdfast.lab.simulator.client import Client

REDIS = Setup(nodes=1, seconds=5.0)
QUORUM, ETCD = Setup(nodes=3), Setup(nodes=1, engine="etcd")

SEEDS = 60
"""How many runs each rule has to notice it; for most, the first one is enough."""

Break = Callable[[pytest.MonkeyPatch], object]


def set_extension(patch: pytest.MonkeyPatch, apply: Callable[..., None]) -> None:
    for module in (holding, renewal):
        patch.setattr(module, "apply_extension", apply)


def waiters_ask_on_and_on(patch: pytest.MonkeyPatch) -> None:
    def pause(self: Contender, outcome: object) -> Steps[None]:
        yield Sleep(self.runtime.clock() + 0.005)

    patch.setattr(Contender, "pause", pause)


def callers_give_up(seconds: float) -> Break:
    def late(patch: pytest.MonkeyPatch) -> None:
        give_up = Contender.give_up

        def slow(self: Contender, outcome: Any) -> Steps[None]:
            yield Sleep(self.runtime.clock() + seconds)
            yield from give_up(self, outcome)

        patch.setattr(Contender, "give_up", slow)

    return late


def tries_are_refused(patch: pytest.MonkeyPatch) -> None:
    outcome = Contender.outcome

    def refuse(self: Contender, answer: Answer) -> object:
        is_try = self.timeout == 0 and self.tries == 1
        return outcome(self, Failed.at("n0", "refused", inf) if is_try else answer)

    patch.setattr(Contender, "outcome", refuse)


def fences_are_guessed(patch: pytest.MonkeyPatch) -> None:
    take = Contender._take

    def guess(self: Contender, granted: Granted) -> LeaseState | None:
        return take(self, replace(granted, fence=granted.fence + 1))

    patch.setattr(Contender, "_take", guess)


def waiters_are_not_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Client, "notify", lambda self, holder: None)


def etcd_leases_expire_early(patch: pytest.MonkeyPatch) -> None:
    def expire(self: Registry, now: float) -> None:
        for claim in [each for each in self.claims.values() if each.ends_at <= now + 1.5]:
            self.abandon(claim)

    patch.setattr(Registry, "expire", expire)


def any_answer_is_an_extension(patch: pytest.MonkeyPatch) -> None:
    def apply(
        runtime: Runtime, lease: LeaseState, answer: Answer, began: float, ttl: float
    ) -> None:
        if lease.state is HELD:
            lease.valid_until = max(lease.valid_until, began + ttl)

    set_extension(patch, apply)


def leases_are_extended_late(patch: pytest.MonkeyPatch) -> None:
    def plan(lease: LeaseState, began: float) -> None:
        lease.renew_at = lease.valid_until + 0.02

    def never(runtime: Runtime) -> Steps[None]:
        yield Sleep(inf)

    patch.setattr(acquire, "plan_renewal", plan)
    patch.setattr(client, "watch_deadlines", never)
    any_answer_is_an_extension(patch)


def extensions_shorten(patch: pytest.MonkeyPatch) -> None:
    def shorten(self: LeaseState, valid_until: float) -> None:
        self.valid_until -= 0.01

    patch.setattr(LeaseState, "prolong", shorten)


def max_hold_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def prolong(self: LeaseState, valid_until: float) -> None:
        self.valid_until += self.ttl / 3

    patch.setattr(LeaseState, "prolong", prolong)


def releases_are_not_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run, "begin_leave", lambda runtime, lease, error: None)


def each_lease_is_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseState, "is_lost", lambda self, now: True)
    releases_are_not_sent(patch)


def inner_blocks_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseState, "depth", property(lambda self: 1, lambda self, depth: None))


def any_repair_is_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Quorum, "_is_worth_repairing", lambda *_: True)
    patch.setattr(Quorum, "_extended", lambda *_: DONE)


def released_locks_are_repaired(patch: pytest.MonkeyPatch) -> None:
    release = Quorum._release

    def repair(self: Quorum, requests: Sequence[Release], until: float) -> Rounds[Any]:
        answers = yield from release(self, requests, until)
        repairs = [Repair(each.key, each.holder, 1.0, 1) for each in requests]
        yield FanOut(repairs, self.all_nodes, until)
        return answers

    patch.setattr(Quorum, "_release", repair)


CASES: list[tuple[str, Setup, Break]] = [
    ("waits busily", REDIS, waiters_ask_on_and_on),
    ("acquire returned late", REDIS, callers_give_up(6.0)),
    ("client stuck", REDIS, callers_give_up(1e7)),
    ("refused for no reason", REDIS, tries_are_refused),
    ("fence without a quorum", QUORUM, fences_are_guessed),
    ("free lock not granted", REDIS, waiters_are_not_woken),
    ("two holders at once", ETCD, etcd_leases_expire_early),
    ("lease without a quorum", REDIS, any_answer_is_an_extension),
    ("extended after its end", REDIS, leases_are_extended_late),
    ("lease shortened", REDIS, extensions_shorten),
    ("held past max_hold", REDIS, max_hold_is_ignored),
    ("lock left behind", REDIS, releases_are_not_sent),
    ("lock unavailable after healing", REDIS, releases_are_not_sent),
    ("loss not reported", REDIS, each_lease_is_taken_for_lost),
    ("lost for no reason", REDIS, each_lease_is_taken_for_lost),
    ("internal error", REDIS, inner_blocks_release),
    ("lease without a quorum", QUORUM, any_repair_is_sent),
    ("lock left behind", QUORUM, released_locks_are_repaired),
]


@pytest.mark.parametrize(("label", "setup", "bug"), CASES, ids=[case[0] for case in CASES])
def test_a_rule_that_is_broken_is_noticed(
    monkeypatch: pytest.MonkeyPatch, label: str, setup: Setup, bug: Break
) -> None:
    bug(monkeypatch)
    runs = (play(draw(seed, setup)) for seed in range(SEEDS))
    assert any(label == each.label for run in runs for each in run.findings)
