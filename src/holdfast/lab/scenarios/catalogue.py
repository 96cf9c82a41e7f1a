"""All scenarios, in the order in which to read them; and the demo, which needs no server: processes
take turns under one lock on SQLite, and one holder is killed."""

from holdfast.lab.history import Kind
from holdfast.lab.scenarios import one_server, quorum
from holdfast.lab.scenarios.scenario import Scenario, Variant
from holdfast.lab.scenarios.stage import Stage

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        one_server.DEADLOCK,
        one_server.WRONG_RELEASE,
        one_server.PAUSE,
        one_server.LATE_REPLY,
        one_server.FAILOVER,
        quorum.AMNESIA,
        quorum.CLOCK_JUMP,
        quorum.NODES_DOWN,
        quorum.PARTITION,
    )
}

CLIENTS = ("ann", "ben", "cyd", "dan", "eve")
TURNS = 2
KILLED = 4
"""The turn, counted from 1, whose holder is killed."""
WORK, TTL = 0.5, 2.0
"""Seconds. A turn is over before its lease is renewed for the first time."""


def play_turns(stage: Stage) -> None:
    """Each client wants the lock twice; the fourth to hold it is killed in the middle."""
    url = stage.sqlite()
    waiting = [stage.client(who, url, ttl=TTL) for who in CLIENTS]
    wanted = dict.fromkeys(waiting, TURNS)
    for client in waiting:
        client.begins_to_acquire()
    turn = 0
    while waiting:
        stage.wait_until(lambda: any(each.has_reported(Kind.GRANTED) for each in waiting), "grant")
        turn += 1
        [holder] = [each for each in waiting if each.has_reported(Kind.GRANTED)]
        holder.reports(Kind.GRANTED)
        if turn == KILLED:
            stage.let_pass(WORK / 2)
            holder.die()
            stage.calm()
            waiting.remove(holder)
            continue
        stage.let_pass(WORK)
        holder.releases()
        wanted[holder] -= 1
        if wanted[holder]:
            holder.begins_to_acquire()
        else:
            waiting.remove(holder)


DEMO = Scenario(
    name="demo",
    title="Processes take turns under one lock, and a holder is killed",
    story=(
        f"{len(CLIENTS)} processes want one lock, {TURNS} times each, in an SQLite file. One of "
        "them is killed (SIGKILL) while it holds the lock."
    ),
    variants=[
        Variant(
            "sqlite",
            f"the embedded engine, ttl {TTL:g} s",
            play_turns,
            "No two processes held the lock at once, and each fence is greater than every one "
            "before. The lease of the killed process was no longer renewed, so it blocked the "
            "others for no longer than its ttl.",
        )
    ],
)
