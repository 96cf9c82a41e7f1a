"""What the hooks for Prometheus and OpenTelemetry make of the life of a lock."""

import json
import re
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry, generate_latest

from holdfast import Client
from holdfast.contrib.otel import Telemetry
from holdfast.contrib.prometheus import Metrics
from holdfast.events import (
    Acquired,
    Event,
    EventsDropped,
    Lost,
    NodeConnected,
    NodeFailed,
    NodeQuarantined,
    NodeRecovered,
    Requested,
)
from holdfast.virtual_time import VirtualTime

ROOT = Path(__file__).parents[2]
URL = "memory://metrics"
NODE = "10.0.0.7:6379"
HOSTILE = 'a"b\nc{d}'
"""The name of a lock."""


def live(hook: Any, seen_while_waiting: Any = lambda: None) -> None:
    """One lock that is renewed and released, one that is lost, one that another client has."""
    with VirtualTime() as time, Client(URL) as other, Client(URL, hooks=[hook]) as client:
        with client.lock("kept", ttl=30):
            time.advance(11)
            lost = client.lock("lost", ttl=10, renew=False).acquire()
            time.advance(10)
            assert lost is not None
        with other.lock("busy"):
            assert client.lock("busy", timeout=0.01).acquire() is None
        with client.lock(HOSTILE):
            client._driver.hooks.wait(30)
            seen_while_waiting()


DROPPED: list[Event] = [
    Requested("job", "ann", 1, None),
    Acquired("job", "ann", 1, 1, 0.1),
    Requested("job", "ben", 1, None),
    EventsDropped(2),  # that one has given up, and the other has released it
]
LATE = Lost("job", "ann", 1, "it was not renewed in time", 30.0)
"""Or it was not among them: it is not counted twice."""


class TestPrometheus:
    @pytest.fixture
    def registry(self) -> CollectorRegistry:
        return CollectorRegistry()

    def test_the_life_of_some_locks(self, registry: CollectorRegistry) -> None:
        held: list[float | None] = []
        live(Metrics(registry), lambda: held.append(registry.get_sample_value("holdfast_held")))
        value = registry.get_sample_value
        assert held == [1.0]
        assert value("holdfast_held") == 0
        assert value("holdfast_waiting") == 0
        assert value("holdfast_acquire_seconds_count", {"outcome": "acquired"}) == 3
        assert value("holdfast_acquire_seconds_count", {"outcome": "timeout"}) == 1
        assert value("holdfast_lost_total") == 1
        assert value("holdfast_hold_seconds_count") == 3
        assert 30 < (value("holdfast_hold_seconds_sum") or 0) < 35  # 21 s and 10 s
        assert value("holdfast_renewal_margin_seconds_count") == 2
        assert (value("holdfast_round_trip_seconds_count") or 0) >= 6

    def test_names_are_a_label_only_if_asked_for(self, registry: CollectorRegistry) -> None:
        live(Metrics(registry, names=True))
        assert registry.get_sample_value("holdfast_lost_total", {"lock": "lost"}) == 1
        assert registry.get_sample_value("holdfast_held", {"lock": HOSTILE}) == 0
        assert rb'lock="a\"b\nc{d}"' in generate_latest(registry)

    def test_what_was_dropped_is_not_counted_for_ever(self, registry: CollectorRegistry) -> None:
        hook = Metrics(registry)
        for event in [*DROPPED, LATE]:
            hook(event)
        assert registry.get_sample_value("holdfast_held") == 0
        assert registry.get_sample_value("holdfast_waiting") == 0

    def test_nodes(self, registry: CollectorRegistry) -> None:
        hook = Metrics(registry)
        unknown = registry.get_sample_value("holdfast_quorum_margin")
        assert unknown is not None
        assert isnan(unknown)  # and not 0, which is an alarm
        hook(NodeConnected(NODE, 2))
        assert registry.get_sample_value("holdfast_node_up", {"node": NODE}) == 1
        assert registry.get_sample_value("holdfast_quorum_margin") == 2
        hook(NodeFailed(NODE, "connection refused", 1))
        assert registry.get_sample_value("holdfast_node_up", {"node": NODE}) == 0
        assert registry.get_sample_value("holdfast_quorum_margin") == 1
        hook(NodeRecovered(NODE, 2))
        hook(NodeQuarantined(NODE, 60.0))
        hook(EventsDropped(7))
        assert registry.get_sample_value("holdfast_node_up", {"node": NODE}) == 1
        assert registry.get_sample_value("holdfast_quorum_margin") == 2
        assert registry.get_sample_value("holdfast_node_quarantines_total", {"node": NODE}) == 1
        assert registry.get_sample_value("holdfast_dropped_events_total") == 7


class Collected:
    """Where the SDK of OpenTelemetry keeps what it was given."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics])

    def hook(self, **options: bool) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self._metrics.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


class TestOpenTelemetry:
    @pytest.fixture
    def collected(self) -> Iterator[Collected]:
        made = Collected()
        yield made
        made.tracers.shutdown()
        made.meters.shutdown()

    def test_the_spans_of_some_locks(self, collected: Collected) -> None:
        live(collected.hook())
        [acquire], [hold] = collected.spans("acquire kept"), collected.spans("hold kept")
        assert acquire.attributes is not None
        assert hold.attributes is not None
        assert acquire.attributes["holdfast.fence"] == hold.attributes["holdfast.fence"]
        assert acquire.end_time is not None
        assert hold.start_time is not None
        assert acquire.end_time <= hold.start_time
        [lost] = collected.spans("hold lost")
        assert [event.name for event in lost.events] == ["lost"]
        assert lost.status.status_code is StatusCode.ERROR
        [busy] = collected.spans("acquire busy")
        assert [event.name for event in busy.events] == ["waiting"]
        assert (busy.attributes or {})["holdfast.outcome"] == "timeout"

    def test_they_are_below_the_span_of_the_caller(self, collected: Collected) -> None:
        tracer = collected.tracers.get_tracer("test")
        with (
            Client(URL, hooks=[collected.hook()]) as client,
            tracer.start_as_current_span("request") as request,
            client.lock("child"),
        ):
            pass
        for name in ("acquire child", "hold child"):
            [span] = collected.spans(name)
            assert span.parent is not None
            assert span.parent.span_id == request.get_span_context().span_id

    def test_the_metrics(self, collected: Collected) -> None:
        live(collected.hook(names=True))
        names = {"holdfast.lock.name": "lost"}
        [lost] = collected.points("holdfast.lost")
        assert (lost.value, lost.attributes) == (1, names)
        assert {point.value for point in collected.points("holdfast.held")} == {0}
        assert {point.value for point in collected.points("holdfast.waiting")} == {0}
        outcomes = [
            point.attributes["holdfast.outcome"]
            for point in collected.points("holdfast.acquire.duration")
        ]
        assert sorted(outcomes) == ["acquired", "acquired", "acquired", "timeout"]
        assert sum(point.count for point in collected.points("holdfast.renewal.margin")) == 2

    def test_what_was_dropped_is_not_counted_for_ever(self, collected: Collected) -> None:
        hook = collected.hook()
        for event in DROPPED:
            hook(event)
        assert len(collected.spans("hold job")) == 1
        assert len(collected.spans("acquire job")) == 2
        hook(LATE)
        assert [point.value for point in collected.points("holdfast.held")] == [0]
        assert [point.value for point in collected.points("holdfast.waiting")] == [0]

    def test_nodes(self, collected: Collected) -> None:
        hook = collected.hook()
        events: list[Event] = [
            NodeConnected(NODE, 2),
            NodeFailed(NODE, "refused", 1),
            NodeRecovered(NODE, 2),
        ]
        found: list[tuple[int, int]] = []
        for event in events:
            hook(event)
            [up], [margin] = (
                collected.points("holdfast.node.up"),
                collected.points("holdfast.quorum.margin"),
            )
            assert up.attributes == {"server.address": NODE}
            found.append((up.value, margin.value))
        assert found == [(1, 2), (0, 1), (1, 2)]


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    registry = CollectorRegistry()
    live(Metrics(registry))
    known = {sample.name for metric in registry.collect() for sample in metric.samples} | {
        "holdfast_node_up"
    }
    dashboard = json.loads((ROOT / "examples/grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = set(re.findall(r"holdfast_\w+", " ".join(expressions)))
    assert shown
    assert shown - known == set()
