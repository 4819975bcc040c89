"""Prometheus metrics, read from the service when they are scraped: nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from core.streaming.ring import RingError, RingReader
from service.api.models import RobotStatus
from service.devices import DeviceStatus
from service.motion import PermitState
from service.storage import Database, JobState
from service.storage import jobs as job_rows

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """The metrics of one service; nothing is registered globally, so that several can live in one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "dynid_http_requests", "Requests answered.", ("method", "status"), registry=self._registry
        )

    def count_request(self, method: str, status: int) -> None:
        self._requests.labels(method, str(status)).inc()

    def render(self, robots: Mapping[str, RobotStatus]) -> bytes:
        """Return all metrics in the text format. Reads database and shared memory; for a thread."""
        return generate_latest(_Scrape(self._registry, self._database, robots))


class _Scrape:
    """What one scrape collects, in the shape of a registry."""

    def __init__(self, registry: CollectorRegistry, database: Database, robots: Mapping[str, RobotStatus]) -> None:
        self._registry = registry
        self._database = database
        self._robots = robots

    def collect(self) -> Iterator[Metric]:
        yield from _device_metrics({name: status.device for name, status in self._robots.items()})
        yield from _motion_metrics(self._robots)
        yield from _drift_metrics(self._robots)
        yield _job_metrics(self._database)
        yield from self._registry.collect()


def _device_metrics(devices: Mapping[str, DeviceStatus]) -> Iterator[Metric]:
    label = ("robot",)
    samples = CounterMetricFamily("dynid_samples", "Samples received by the device host.", labels=label)
    lost = CounterMetricFamily("dynid_samples_lost", "Samples that never arrived.", labels=label)
    restarts = CounterMetricFamily("dynid_device_restarts", "Restarts of the device host.", labels=label)
    head = GaugeMetricFamily("dynid_ring_head", "Position of the next sample in the ring.", labels=label)
    age = GaugeMetricFamily("dynid_sample_age_seconds", "Since the newest sample arrived.", labels=label)
    streaming = GaugeMetricFamily("dynid_robot_streaming", "1 while samples arrive.", labels=label)
    heat = GaugeMetricFamily(
        "dynid_joint_temperature_celsius", "By the controller, where it tells.", labels=("robot", "joint")
    )
    for name, status in devices.items():
        samples.add_metric((name,), status.samples)
        lost.add_metric((name,), status.lost)
        restarts.add_metric((name,), status.restarts)
        if (position := _ring_head(status)) is not None:
            head.add_metric((name,), position)
        if status.sample_age_ms is not None:
            age.add_metric((name,), status.sample_age_ms * 1e-3)
        streaming.add_metric((name,), status.connection == "streaming")
        for joint, celsius in enumerate(status.controller.joint_temperatures or (), start=1):
            heat.add_metric((name, str(joint)), celsius)
    yield from (samples, lost, restarts, head, age, streaming, heat)


def _motion_metrics(robots: Mapping[str, RobotStatus]) -> Iterator[Metric]:
    permit = GaugeMetricFamily("dynid_permit_state", "1 for the state the permit is in.", labels=("robot", "state"))
    leased = GaugeMetricFamily("dynid_lease_held", "1 while somebody holds the lease.", labels=("robot",))
    for name, status in robots.items():
        for state in PermitState:
            permit.add_metric((name, state.value), state is status.permit.state)
        leased.add_metric((name,), status.lease is not None)
    yield from (permit, leased)


def _drift_metrics(robots: Mapping[str, RobotStatus]) -> Iterator[Metric]:
    level = GaugeMetricFamily(
        "dynid_drift_level", "How near a joint is to tripping; at 1 it trips.", labels=("robot", "joint")
    )
    learned = GaugeMetricFamily("dynid_drift_learned_ratio", "Of what is usual of a joint.", labels=("robot", "joint"))
    trips = CounterMetricFamily("dynid_drift_trips", "Joints that were found to drift.", labels=("robot",))
    for name, status in robots.items():
        if status.drift is None:
            continue
        trips.add_metric((name,), status.drift.trips)
        for family, values in ((level, status.drift.level), (learned, status.drift.learned)):
            for joint, value in enumerate(values, start=1):
                family.add_metric((name, str(joint)), value)
    yield from (level, learned, trips)


def _job_metrics(database: Database) -> Metric:
    with database.reading() as session:
        counts = job_rows.count_by_state(session)
    jobs = GaugeMetricFamily("dynid_jobs", "Jobs in the database, by state.", labels=("state",))
    for state in JobState:
        jobs.add_metric((state.value,), counts.get(state, 0))
    return jobs


def _ring_head(status: DeviceStatus) -> int | None:
    if status.ring_path is None:
        return None
    try:
        with RingReader.open(status.ring_path) as reader:
            return reader.head
    except RingError:
        return None
