"""What all tests share: one real API server for the whole run, and property tests that no slow machine fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest

from gpu_dra.kube.client import KubeClient
from tests.component import apiserver
from tests.component.apiserver import ApiServer
from tests.needs import need

# A busy machine says nothing about the code: no example has a deadline, and none is drawn too slowly.
hypothesis.settings.register_profile("gpu-dra", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("gpu-dra")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real API server of version $K8S. Shared: a test removes what it made that is not its namespace's."""
    version = apiserver.chosen_version()
    missing = apiserver.missing_programs(version)
    need(not missing, f"{' and '.join(missing)} not built; run: python -m tests.e2e.cluster.programs {version}")
    with apiserver.running(tmp_path_factory.mktemp("apiserver"), version) as server:
        yield server


@pytest.fixture
async def admin(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    """The administrator's client."""
    async with KubeClient(api_server.connection) as kube:
        yield kube
