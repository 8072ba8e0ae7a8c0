"""Fixtures: the stage of a test module, and a second process on its database."""

from collections.abc import Iterator

import pytest

from tests.acceptance.stage import Stage
from tests.live import Cluster, LiveServer, serving


@pytest.fixture(scope="module")
def stage(server: LiveServer) -> Iterator[Stage]:
    with Stage(server) as stage:
        yield stage


@pytest.fixture(scope="module")
def elsewhere(cluster: Cluster, server: LiveServer) -> Iterator[LiveServer]:
    """Another process of the installation, which never polls the authority by itself."""
    with serving(cluster, dsn=server.dsn, authority_poll_seconds=3600) as other:
        yield other


@pytest.fixture
def own_stage(cluster: Cluster) -> Iterator[Stage]:
    """An installation for one test alone, of which nobody but the seeded administrator is in charge."""
    with serving(cluster) as server, Stage(server) as stage:
        yield stage
