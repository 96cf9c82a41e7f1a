"""One lock on clocks that tick: what a counterexample says, and that nothing is out of reach."""

from collections.abc import Callable

import pytest

from holdfast.lab.model.decisions import (
    Extended,
    Habits,
    Record,
    acquired,
    extended,
    quarantine,
    voters,
)
from holdfast.lab.model.leases import Model, broken_for_good, one_at_a_time
from holdfast.lab.model.nodes import FREE, Node, acquire, extend, release, repair, tick
from holdfast.lab.model.search import explore
from holdfast.lab.model.state import (
    BACK,
    BROKEN,
    HOLDING,
    REPAIR,
    SENTENCED,
    TRUSTED,
    Client,
    Rules,
    Scope,
    State,
)
from holdfast.lab.model.variants import run


def steps(name: str) -> list[str]:
    return str(run(name).explored.violation).splitlines()


def test_validity_from_the_reply_in_words() -> None:
    assert steps("from-reply") == [
        "A and B both believe that they have the lock:",
        "  1. A asks for the lock.",
        "  2. n1 executes A's acquire: granted.",
        "  3. A tick.",
        "  4. B asks for the lock.",
        "  5. n2 executes A's acquire: granted. A HAS THE LOCK for 2 ticks.",
        "  6. n3 executes B's acquire: granted.",
        "  7. A tick.",
        "  8. n1 executes B's acquire: granted. B HAS THE LOCK for 2 ticks.",
    ]


def test_a_restart_without_the_guard_in_words() -> None:
    assert steps("no-guard")[-3:] == [
        "  5. n3 executes B's acquire: granted.",
        "  6. n1 restarts, empty.",
        "  7. n1 executes B's acquire: granted. B HAS THE LOCK for 2 ticks.",
    ]


def test_a_broken_lock_comes_back_if_a_renewal_and_a_late_acquire_are_on_their_way() -> None:
    """What an operator must know: a break is no barrier. After a break, look again."""
    assert steps("break-amid-renewal") == [
        "A has renewed a lease that was broken before it asked:",
        "  1. A asks for the lock.",
        "  2. n1 executes A's acquire: granted.",
        "  3. n2 executes A's acquire: granted. A HAS THE LOCK for 2 ticks.",
        "  4. A asks to renew.",
        "  5. n1 executes A's extend: done.",
        "  6. An operator breaks the lock on all nodes.",
        "  7. n3 executes A's acquire: granted, unheard.",
        "  8. n2 executes A's extend: no such lock.",
        "  9. n3 executes A's extend: done.",
        " 10. A HAS RENEWED for 2 ticks, and repairs n2.",
        " 11. n2 executes A's repair: done.",
        " 12. A asks to renew.",
        " 13. n2 executes A's extend: done.",
        " 14. n3 executes A's extend: done.",
        " 15. A HAS RENEWED for 2 ticks.",
    ]


def held(state: State) -> bool:
    return any(client.left for client in state.clients)


def held_against_a_rival(state: State) -> bool:
    return held(state) and {site.node.owner for site in state.sites} == {0, 1}


def repairs(state: State) -> bool:
    return any(REPAIR in link.pending for site in state.sites for link in site.links)


def held_with_a_node_in_quarantine(state: State) -> bool:
    holding = [who for who, client in enumerate(state.clients) if client.left]
    return any(link.barred > 0 for who in holding for link in state.links(who))


def forgiven(state: State) -> bool:
    """All restarts are over, and every node has its vote back."""
    trusted = all(link.barred == TRUSTED for site in state.sites for link in site.links)
    return trusted and not state.restarts and held(state)


def clocks_apart(state: State) -> bool:
    return held(state) and {site.steady for site in state.sites} == {True, False}


def sentenced(state: State) -> bool:
    return any(client.standing == SENTENCED for client in state.clients)


@pytest.mark.parametrize(
    ("scope", "reached"),
    [
        (Scope(), held_against_a_rival),
        (Scope(extension=2), repairs),
        (Scope(restarts=1), held_with_a_node_in_quarantine),
        (Scope(restarts=1), forgiven),
        (Scope(ttl=3, drift=1), clocks_apart),
        (Scope(extension=2, breaks=1), sentenced),
    ],
)
def test_it_gets_there(scope: Scope, reached: Callable[[State], bool]) -> None:
    """What holds in every run would hold as well if nothing ever happened."""
    model = Model(scope, Rules())
    assert explore(model, lambda state: "there" if reached(state) else None).violation


def test_who_hears_that_it_is_lost_has_lost_it() -> None:
    model = Model(Scope(clients=1, extension=2, breaks=1), Rules())
    seen = list[State]()
    assert explore(model, seen.append).violation is None
    assert "A concludes that it has lost the lock." in {
        words for state in seen for words, _ in model.moves(state)
    }


def test_states_that_swap_names_are_one() -> None:
    model = Model(Scope(), Rules())
    [(_, by_a), (_, by_b), *_] = model.moves(model.start())
    assert by_a != by_b
    assert model.canonical(by_a) == model.canonical(by_b)
    third = next(then for words, then in model.moves(by_a) if words.startswith("n3 executes A's"))
    first = next(then for words, then in model.moves(by_b) if words.startswith("n1 executes B's"))
    assert model.canonical(third) == model.canonical(first)


def test_two_who_believe_are_found_unless_an_operator_broke_it() -> None:
    model = Model(Scope(), Rules())
    start = model.start()
    holder = Client(True, HOLDING, left=1)
    both = start._replace(clients=(holder, holder))
    assert one_at_a_time(both) == "A and B both believe that they have the lock"
    assert one_at_a_time(both.with_client(0, holder._replace(standing=BROKEN))) is None
    assert one_at_a_time(both.with_client(0, holder._replace(left=0))) is None
    assert broken_for_good(both) is None
    assert broken_for_good(both.with_client(1, holder._replace(standing=BACK))) is not None


def test_a_node_answers_as_a_server_would() -> None:
    mine = Node(0, 1)
    assert acquire(FREE, 0, 2) == (Node(0, 2), "Granted")
    assert acquire(mine, 0, 2) == (Node(0, 2), "Granted")
    assert acquire(mine, 1, 2) == (mine, "Held")
    assert extend(mine, 0, 2) == (Node(0, 2), "Done")
    assert extend(Node(0, 3), 0, 2) == (Node(0, 3), "Done")
    assert extend(mine, 1, 2) == (mine, "NotYours")
    assert extend(FREE, 0, 2) == (FREE, "Missing")
    assert repair(FREE, 0, 2) == (Node(0, 2), "Done")
    assert repair(mine, 1, 2) == (mine, "NotYours")
    assert release(mine, 0) == (FREE, "Done")
    assert release(mine, 1) == (mine, "NotYours")
    assert tick(Node(0, 2)) == mine
    assert tick(mine) == FREE


NOBODY_BARRED = (-100, -100, -100)
HABITS = Habits(nodes=3, ttl=3, extension=3, allowance=1, votes_short=0, from_reply=False)


@pytest.mark.parametrize(
    ("said", "barred", "now", "left"),
    [
        (("Granted", "", ""), NOBODY_BARRED, 0, 0),
        (("Granted", "Granted", ""), NOBODY_BARRED, 0, 2),
        (("Granted", "", "Granted"), NOBODY_BARRED, 1, 1),
        (("Granted", "Granted", ""), NOBODY_BARRED, 2, 0),
        (("Granted", "Granted", ""), (1, -100, -100), 1, 0),  # restarted since it was asked
    ],
)
def test_a_client_has_the_lock_with_a_quorum_in_time(
    said: tuple[str, ...], barred: tuple[float, ...], now: int, left: int
) -> None:
    assert acquired(HABITS, Record(said, barred, now)) == left


@pytest.mark.parametrize(
    ("said", "barred", "result"),
    [
        (("Done", "Done", ""), NOBODY_BARRED, Extended(1, True, ())),
        (("Done", "Done", "Missing"), NOBODY_BARRED, Extended(1, True, (2,))),
        (("Done", "Done", "Missing"), (1, -100, -100), Extended(1, False, ())),
        (("Done", "Missing", "NotYours"), NOBODY_BARRED, Extended(0, False, ())),
        (("Done", "Missing", ""), NOBODY_BARRED, Extended(1, False, ())),
    ],
)
def test_a_holder_has_renewed_with_a_quorum_and_repairs_after_that(
    said: tuple[str, ...], barred: tuple[float, ...], result: Extended
) -> None:
    assert extended(HABITS, Record(said, barred, 1), left=1) == result


def test_a_node_in_quarantine_is_not_asked() -> None:
    assert voters(HABITS, NOBODY_BARRED) == (0, 1, 2)
    assert voters(HABITS, (-100, 2, -100)) == (0, 2)
    assert voters(HABITS, (1, 2, -100)) == ()
    assert quarantine(4, on=True) == 4
    assert quarantine(4, on=False) < 0
