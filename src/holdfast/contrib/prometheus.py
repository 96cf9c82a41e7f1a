"""Prometheus: what happens to the locks of a client, as metrics.

>>> import holdfast
>>> from prometheus_client import CollectorRegistry
>>> from holdfast.contrib.prometheus import Metrics
>>> registry = CollectorRegistry()
>>> with holdfast.Client("memory://metrics-example", hooks=[Metrics(registry)]) as client:
...     with client.lock("report"):
...         pass
>>> registry.get_sample_value("holdfast_acquire_seconds_count", {"outcome": "acquired"})
1.0

One `Metrics` can be the hook of several clients. It cannot be made twice for one registry.
"""

from contextlib import suppress
from math import nan
from typing import TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from holdfast import events

__all__ = ["Metrics"]

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 300, 3600)
"""The buckets of all histograms: a local server answers in 1 ms, and a backup takes an hour."""


class Metrics:
    """A hook that counts and measures.

    Args:

    - `registry`: where the metrics are found. Default: that of `prometheus_client`.
    - `names`: whether each metric of a lock has the name of the lock as the label `lock`. Each name
      is a series of its own in Prometheus, so leave it out where names have numbers in them, as in
      `order:4711`. Default: no.
    """

    def __init__(
        self, registry: CollectorRegistry | None = REGISTRY, *, names: bool = False
    ) -> None:
        self._names = names
        lock = ["lock"] if names else []

        def histogram(name: str, text: str, labels: list[str]) -> Histogram:
            return Histogram(f"holdfast_{name}", text, labels, buckets=SECONDS, registry=registry)

        def gauge(name: str, text: str, labels: list[str]) -> Gauge:
            return Gauge(f"holdfast_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, labels: list[str]) -> Counter:
            return Counter(f"holdfast_{name}", text, labels, registry=registry)

        self._wait = histogram(
            "acquire_seconds", "From asking for a lock to its outcome.", ["outcome", *lock]
        )
        self._hold = histogram("hold_seconds", "How long locks were held.", lock)
        self._margin = histogram(
            "renewal_margin_seconds", "What a lease had left when it was renewed.", lock
        )
        self._waiting = gauge("waiting", "Requests that have no outcome yet.", lock)
        self._held = gauge("held", "Locks that are held.", lock)
        self._lost = counter("lost", "Leases that ended before they were released.", lock)
        self._failures = counter("renewal_failures", "Renewals that failed; retried.", lock)
        self._answers = histogram("round_trip_seconds", "How long the engine took to answer.", [])
        self._failed = counter("failed_requests", "Requests without an answer.", [])
        self._up = gauge("node_up", "Whether a node of the quorum answers.", ["node"])
        self._voteless = counter("node_quarantines", "Restarts of a node of the quorum.", ["node"])
        self._quorum = gauge("quorum_margin", "How many more nodes of the quorum may fail.", [])
        self._quorum.set(nan)  # not known, or no quorum; 0 would be an alarm
        self._dropped = counter("dropped_events", "Events that came too fast.", [])
        self._open: dict[str, Gauge] = {}
        """For each request that has no outcome yet, and each lease, what it is counted in."""

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        if isinstance(event, events.LockEvent):
            lock = {"lock": event.name} if self._names else {}
            self._measure(event, lock)
            return
        match event:
            case events.Answered(seconds=seconds, failed=failed):
                self._answers.observe(seconds)
                self._failed.inc(failed)
            case events.NodeConnected() | events.NodeRecovered() | events.NodeFailed():
                self._up.labels(event.node).set(not isinstance(event, events.NodeFailed))
                if event.margin is not None:
                    self._quorum.set(event.margin)
            case events.NodeQuarantined(node=node):
                self._voteless.labels(node).inc()
            case events.EventsDropped(count=count):
                self._dropped.inc(count)
                with suppress(KeyError):  # the ends of these may have been among them
                    while True:
                        self._open.popitem()[1].dec()

    def _measure(self, event: events.LockEvent, lock: dict[str, str]) -> None:
        match event:
            case events.Requested():
                self._count(event, _of(self._waiting, lock))
            case events.Acquired(waited=waited):
                self._wait.labels("acquired", *lock.values()).observe(waited)
                self._count(event, _of(self._held, lock))
            case events.NotAcquired(waited=waited, why=why):
                self._wait.labels(why, *lock.values()).observe(waited)
                self._count(event, None)
            case events.Renewed(margin=margin):
                _of(self._margin, lock).observe(margin)
            case events.RenewalFailed():
                _of(self._failures, lock).inc()
            case events.Released(held=held):
                _of(self._hold, lock).observe(held)
                self._count(event, None)
            case events.Lost(held=held):
                _of(self._lost, lock).inc()
                _of(self._hold, lock).observe(held)
                self._count(event, None)

    def _count(self, event: events.LockEvent, gauge: Gauge | None) -> None:
        """From now on it is counted in this gauge, and in no other."""
        before = self._open.pop(event.request, None)
        if before is not None:
            before.dec()
        if gauge is not None:
            gauge.inc()
            self._open[event.request] = gauge


M = TypeVar("M", Counter, Gauge, Histogram)


def _of(metric: M, labels: dict[str, str]) -> M:
    return metric.labels(**labels) if labels else metric
