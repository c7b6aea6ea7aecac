"""Fixtures of the component tests: real processes, sockets and files, and one real API server for the whole run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gpu_dra.kube.client import KubeClient
from tests.component import apiserver
from tests.component.apiserver import ApiServer
from tests.needs import need


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
