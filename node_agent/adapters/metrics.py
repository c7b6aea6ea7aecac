"""What Prometheus reads of the agent. The one place that knows the library."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 45.0)


class Metrics:
    """Counters and gauges of one agent, each with the driver as a label."""

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._claims = Histogram(
            "gpu_dra_claim_seconds",
            "Seconds until the kubelet had the answer for a claim.",
            ("driver", "operation", "outcome"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._devices = Gauge(
            "gpu_dra_devices", "Devices published by this node.", ("driver",), registry=self._registry
        )
        self._prepared = Gauge("gpu_dra_prepared_claims", "Claims prepared now.", ("driver",), registry=self._registry)
        self._registered = Gauge(
            "gpu_dra_registered", "1 while the kubelet has the driver registered.", ("driver",), registry=self._registry
        )
        self._published = Counter(
            "gpu_dra_published_total", "Times the stored ResourceSlices were found or made right.", ("driver",),
            registry=self._registry,
        )  # fmt: skip
        self._set_aside = Gauge(
            "gpu_dra_set_aside_files", "State files that could not be read and were set aside at start.", ("driver",),
            registry=self._registry,
        )  # fmt: skip
        Gauge("gpu_dra_build_info", "1, with the version.", ("version",), registry=self._registry).labels(version).set(
            1
        )

    def claim(self, driver: str, operation: str, seconds: float, *, ok: bool) -> None:
        self._claims.labels(driver, operation, "ok" if ok else "error").observe(seconds)

    def published(self, driver: str) -> None:
        self._published.labels(driver).inc()

    def state(self, driver: str, *, devices: int, prepared: int, registered: bool, set_aside: int) -> None:
        """How things are now; called when somebody reads."""
        self._devices.labels(driver).set(devices)
        self._prepared.labels(driver).set(prepared)
        self._registered.labels(driver).set(registered)
        self._set_aside.labels(driver).set(set_aside)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)
