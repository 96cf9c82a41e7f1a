"""OpenTelemetry: spans and metrics of the locks of a client. It needs `opentelemetry-api` alone.

>>> import holdfast
>>> from holdfast.contrib.otel import Telemetry
>>> client = holdfast.Client("memory://otel-example", hooks=[Telemetry()])
>>> client.close()

A trace has two spans for each lock, below the span that was current when it was asked for:
`acquire`, until its outcome, and `hold`, until its end. A loss is an event of the latter, and an
error.
"""

from collections.abc import Mapping

from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider, UpDownCounter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from holdfast import events

__all__ = ["Telemetry"]


class Telemetry:
    """A hook that makes spans and metrics.

    Args:

    - `tracer_provider`, `meter_provider`: where they go. Default: the global ones.
    - `names`: whether metrics have the name of the lock as the attribute `holdfast.lock.name`, as
      spans always have. Each name is a series of its own, so leave it out where names have numbers
      in them, as in `order:4711`. Default: no.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        names: bool = False,
    ) -> None:
        self._names = names
        self._tracer = trace.get_tracer("holdfast", tracer_provider=tracer_provider)
        meter = metrics.get_meter("holdfast", meter_provider=meter_provider)

        def seconds(name: str, text: str) -> Histogram:
            return meter.create_histogram(f"holdfast.{name}", "s", text)

        self._wait = seconds("acquire.duration", "From asking for a lock to its outcome.")
        self._hold = seconds("hold.duration", "How long locks were held.")
        self._margin = seconds("renewal.margin", "What a lease had left when it was renewed.")
        self._round_trip = seconds("request.duration", "How long the engine took to answer.")
        self._waiting = meter.create_up_down_counter(
            "holdfast.waiting", "{request}", "Requests that have no outcome yet."
        )
        self._held = meter.create_up_down_counter("holdfast.held", "{lock}", "Locks that are held.")
        self._lost = meter.create_counter(
            "holdfast.lost", "{lock}", "Leases that ended before they were released."
        )
        self._failures = meter.create_counter(
            "holdfast.renewal.failures", "{renewal}", "Renewals that failed; they are tried again."
        )
        self._up = meter.create_gauge("holdfast.node.up", "1", "Whether a node answers.")
        self._quorum = meter.create_gauge(
            "holdfast.quorum.margin", "{node}", "How many more nodes of the quorum may fail."
        )
        self._open: dict[str, tuple[Span, UpDownCounter, dict[str, str]]] = {}
        """For each request that has no outcome yet, and each lease: its span, and what it is
        counted in."""

    def __call__(self, event: events.Event) -> None:
        """Record an event."""
        match event:
            case events.LockEvent():
                self._record(event, {"holdfast.lock.name": event.name} if self._names else {})
            case events.Answered(seconds=seconds, failed=failed):
                self._round_trip.record(seconds, {"holdfast.request.failed": bool(failed)})
            case events.NodeConnected() | events.NodeRecovered() | events.NodeFailed():
                up = not isinstance(event, events.NodeFailed)
                self._up.set(up, {"server.address": event.node})
                if event.margin is not None:
                    self._quorum.set(event.margin)
            case events.EventsDropped():
                for request in [*self._open]:  # their ends may have been among them
                    self._end(request, event)

    def _record(self, event: events.LockEvent, lock: dict[str, str]) -> None:
        match event:
            case events.Requested(shares=shares):
                about = {"holdfast.lock.shares": shares}
                self._begin("acquire", event, self._waiting, lock, about)
            case events.Waiting(remaining=remaining):
                self._note(event, "waiting", {"holdfast.holder.remaining": remaining})
            case events.Acquired(waited=waited, fence=fence):
                self._wait.record(waited, {"holdfast.outcome": "acquired", **lock})
                about = {"holdfast.fence": fence}
                self._end(event.request, event, about)
                self._begin("hold", event, self._held, lock, about)
            case events.NotAcquired(waited=waited, why=why):
                self._wait.record(waited, {"holdfast.outcome": why, **lock})
                self._end(event.request, event, {"holdfast.outcome": why})
            case events.Renewed(margin=margin):
                self._margin.record(margin, lock)
            case events.RenewalFailed(why=why):
                self._failures.add(1, lock)
                self._note(event, "renewal failed", {"holdfast.why": why})
            case events.Released(held=held) | events.Lost(held=held):
                self._hold.record(held, lock)
                if isinstance(event, events.Lost):
                    self._lost.add(1, lock)
                    self._note(event, "lost", {"holdfast.why": event.why})
                self._end(event.request, event)

    def _begin(
        self,
        name: str,
        event: events.LockEvent,
        counter: UpDownCounter,
        lock: dict[str, str],
        attributes: dict[str, int],
    ) -> None:
        span = self._tracer.start_span(
            f"{name} {event.name}",
            kind=SpanKind.CLIENT if name == "acquire" else SpanKind.INTERNAL,
            attributes={"holdfast.lock.name": event.name, **attributes},
            start_time=_nanoseconds(event),
        )
        self._open[event.request] = span, counter, lock
        counter.add(1, lock)

    def _note(self, event: events.LockEvent, name: str, attributes: dict[str, str | float]) -> None:
        found = self._open.get(event.request)
        if found is not None:
            found[0].add_event(name, dict(attributes), _nanoseconds(event))

    def _end(
        self, request: str, event: events.Event, attributes: Mapping[str, str | int] | None = None
    ) -> None:
        """End its span, if there is one, and count it no more."""
        found = self._open.pop(request, None)
        if found is None:
            return
        span, counter, lock = found
        counter.add(-1, lock)
        span.set_attributes({**(attributes or {})})
        if isinstance(event, events.Lost):
            span.set_status(Status(StatusCode.ERROR, event.why))
        span.end(_nanoseconds(event))


def _nanoseconds(event: events.Event) -> int:
    return int(event.at * 1e9)
