"""Fixtures: one PostgreSQL per test process, one served installation per test module."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog

from tests.live import Cluster, LiveServer, serving

LONGEST = "test_readme.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin, so that no worker is left alone with them in the end."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="beamwright-test-", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(Path(directory))
        yield cluster
        cluster.stop()


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """A fresh, migrated and seeded database."""
    return cluster.database()


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[LiveServer]:
    with serving(cluster) as server:
        yield server


@pytest.fixture(scope="module")
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """Log lines below critical would drown what a failing test prints."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
