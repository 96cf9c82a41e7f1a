"""Getting a lock: try, wait for a wake-up, try again, give up in time, leave nothing behind.

What can happen at any yield below, and what then:

- The reply is lost or late (`Failed`): nobody knows whether the lock was granted, so the next try
  asks with the same holder id, which finds its own grant again; the last one gives it back. (Over
  a quorum each try gives back its own; so they are told from each other: see `ballot`.)
- The grant took so long to arrive that it is not worth anything: the same.
- We are cancelled, interrupted or closed: whatever was asked for is given back before that goes on.
- A wake-up is lost: the wait ends when the present holder's time does, so it costs time, not life.
- A wake-up comes just as we give up: giving back passes the offer on to the next in the queue.
- The lock is handed over while we wait: it was ours from some instant after the request that had us
  wait, so it counts from before that. If the word of it speaks of another request, or comes too
  late, we ask, as after any wake-up.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from holdfast.core.backoff import backoff, spread
from holdfast.core.effects import Ask, Sleep, Steps, Subscribe, Wait
from holdfast.core.holding import give_back, hasten_returns, unavailable
from holdfast.core.lease_state import LeaseState, LockSpec
from holdfast.core.messages import Acquire, Answer, Failed, Granted, HandedOver, Held
from holdfast.core.renewal import plan_renewal
from holdfast.core.runtime import Runtime
from holdfast.core.schedule import CROWD
from holdfast.errors import EngineUnavailable

SHORTEST_WAIT = 0.001

MOST_CONTENDED = 1000
"""How many contended keys are kept in mind."""

HASTE = 0.05
"""A last try that had no longer than this, and no answer, does not tell of an engine that fails."""

FAILING_PATIENCE = 0.1
"""How long to wait for the last word of an engine that has not been answering anyway."""


def acquire(  # noqa: C901 - one loop, to be read from its beginning to its end
    runtime: Runtime, spec: LockSpec, timeout: float | None, taken: list[LeaseState] | None = None
) -> Steps[LeaseState | None]:
    """Get the lock; None if somebody else has it until `timeout` (0: ask once; None: for ever).

    What it gives is in `taken` before, should a Ctrl-C strike while it is on its way.
    """
    holder, key = runtime.new_holder(), spec.key
    began = runtime.clock()
    give_up_at = inf if timeout is None else began + timeout
    until = (
        min(began + spec.request_timeout, give_up_at) if timeout else began + spec.request_timeout
    )
    failing_since, tries = inf, 0
    pauses: Iterator[float] | None = None
    untidy = waited = False
    listening = timeout != 0 and key in runtime.contended
    answer: Answer
    pause: Subscribe | Wait | Sleep
    try:
        if listening:
            runtime.contended.discard(key)  # unless it turns out to be held again
            yield Subscribe(holder)
        while True:
            untidy = True  # from here on the engine may have something of ours
            request = Acquire(
                key, holder, spec.ttl, listening, 0, tries, spec.renew, once=timeout == 0
            )
            [answer] = yield Ask((request,), until)
            tries += 1
            now = runtime.clock()
            if type(answer) is Granted:
                given = _as_granted(runtime, spec, answer.ttl)
                tenure = _take(runtime, given, answer.holder or holder, answer.fence, began, now)
                if tenure is not None:
                    if taken is not None:
                        taken.append(tenure)
                    untidy = False
                    return tenure
                answer = Failed.at("engine", f"took {now - began:.3f} s to answer")

            if type(answer) is Held:
                waited = True
                failing_since = inf
                _note_contention(runtime, key)
                if runtime.schedule.pending_releases:
                    hasten_returns(runtime)
                untidy = listening  # a place in the queue
                wake_at = now + _pause(runtime, spec, answer)
                last_try = give_up_at
                pause = Wait(holder, min(wake_at, last_try)) if listening else Subscribe(holder)
                listening = True
            else:
                waited = waited and give_up_at - began < HASTE
                failing_since = min(failing_since, began)
                last_try = failing_since + spec.ttl if timeout is None else give_up_at
                pauses = pauses or backoff(runtime.uniform)
                pause = Sleep(min(now + next(pauses), last_try))

            if now < last_try:
                heard = yield pause
                asked, began = began, runtime.clock()
                if began < last_try:
                    # Not later than any answer may be: then to ask again gives it a whole ttl.
                    if (
                        type(heard) is HandedOver
                        and heard.tries == tries - 1
                        and began <= asked + spec.request_timeout
                    ):
                        tenure = _take(runtime, spec, holder, heard.fence, asked, began)
                        if tenure is not None:
                            if taken is not None:
                                taken.append(tenure)
                            untidy = False
                            return tenure
                    until = min(began + spec.request_timeout, give_up_at)
                    continue
            if waited:
                return None
            raise _unavailable(spec, answer)
    except GeneratorExit:
        untidy = False  # nobody performs anything for us any more
        raise
    finally:
        try:
            if untidy:
                yield from _tidy_up(runtime, spec, holder, failing=failing_since < inf)
        finally:
            if listening:
                runtime.unsubscribe(holder)


def _tidy_up(runtime: Runtime, spec: LockSpec, holder: str, *, failing: bool) -> Steps[None]:
    """Give back whatever we have there. An engine that fails to answer is not waited for again."""
    request_timeout = (
        min(spec.request_timeout, FAILING_PATIENCE) if failing else spec.request_timeout
    )
    try:
        yield from give_back(runtime, spec, holder, request_timeout)
    except GeneratorExit:
        raise  # nobody performs anything for us any more
    except BaseException:  # interrupted: nobody knows whether it arrived
        yield from give_back(runtime, spec, holder, request_timeout)
        raise


def _note_contention(runtime: Runtime, key: str) -> None:
    if len(runtime.contended) >= MOST_CONTENDED:
        runtime.contended.clear()
    runtime.contended.add(key)


def _as_granted(runtime: Runtime, spec: LockSpec, ttl: float) -> LockSpec:
    """The same with the ttl that the engine gave, if that is another than asked."""
    if not ttl:
        return spec
    validity = ttl - runtime.drift(ttl)
    if (ttl, validity) == (spec.ttl, spec.validity):
        return spec
    return replace(spec, ttl=ttl, validity=validity)


def _take(
    runtime: Runtime, spec: LockSpec, holder: str, fence: int, began: float, now: float
) -> LeaseState | None:
    """Hold what was granted; None if that came too late."""
    valid_until, hold_until = began + spec.validity, inf
    if spec.max_hold is not None:
        hold_until = began + spec.max_hold
        valid_until = min(valid_until, hold_until)
    if now >= valid_until:
        return None
    tenure = LeaseState(spec, holder, fence, valid_until, hold_until)
    plan_renewal(tenure, began)
    schedule = runtime.schedule
    if schedule.enter(tenure):
        runtime.wake_renewer()
    elif len(schedule.entered) > CROWD:
        with runtime.mutex:
            schedule.settle()
    return tenure


def _pause(runtime: Runtime, spec: LockSpec, held: Held) -> float:
    """How long asking again is pointless, unless we are woken."""
    pause = (
        held.remaining if held.wakes else min(held.remaining, spread(spec.retry, runtime.uniform))
    )
    return max(pause, SHORTEST_WAIT)


def _unavailable(spec: LockSpec, answer: Answer) -> EngineUnavailable:
    return unavailable(
        f"{spec.name!r} was not acquired, since the engine could not be asked", answer
    )
