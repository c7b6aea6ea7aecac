"""The controller's Prometheus metrics."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, PlatformCollector, ProcessCollector, generate_latest

_PREFIX: Final = "gpu_dra_controller"
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """A registry of its own, so that two in one process do not meet."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._leading = Gauge(f"{_PREFIX}_leading", "1 on the replica that works.", registry=self._registry)
        self._classes = Gauge(
            f"{_PREFIX}_device_classes",
            "DeviceClasses of the chart's values: kept, foreign (left alone), failed.",
            ["state"],
            registry=self._registry,
        )
        self._writes = Counter(
            f"{_PREFIX}_device_class_writes", "Writes of DeviceClasses.", ["action"], registry=self._registry
        )
        for action in ("create", "update", "delete"):
            self._writes.labels(action)

    def leading(self, *, yes: bool) -> None:
        self._leading.set(1 if yes else 0)

    def written(self, action: str) -> None:
        self._writes.labels(action).inc()

    def state(self, *, kept: int, foreign: int, problems: int) -> None:
        for name, count in (("kept", kept), ("foreign", foreign), ("failed", problems)):
            self._classes.labels(name).set(count)

    def read(self) -> tuple[bytes, str]:
        """Everything in Prometheus' text format, and that format's name."""
        return generate_latest(self._registry), _CONTENT_TYPE
