"""What /metrics says."""

from __future__ import annotations

from controller.adapters.metrics import Metrics


def test_names_and_values() -> None:
    metrics = Metrics()
    metrics.leading(yes=True)
    metrics.written("create")
    metrics.state(kept=2, foreign=1, problems=0)
    lines = metrics.read()[0].decode().splitlines()
    for line in (
        "gpu_dra_controller_leading 1.0",
        'gpu_dra_controller_device_class_writes_total{action="create"} 1.0',
        'gpu_dra_controller_device_class_writes_total{action="delete"} 0.0',
        'gpu_dra_controller_device_classes{state="kept"} 2.0',
        'gpu_dra_controller_device_classes{state="foreign"} 1.0',
        'gpu_dra_controller_device_classes{state="failed"} 0.0',
    ):
        assert line in lines
    metrics.leading(yes=False)
    assert "gpu_dra_controller_leading 0.0" in metrics.read()[0].decode().splitlines()
