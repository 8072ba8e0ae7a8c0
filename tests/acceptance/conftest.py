"""Fixtures: the stage of a test module, a second process on its database, and what the service logs."""

import logging
from collections.abc import Iterator
from io import BytesIO

import pytest
import structlog

from beamwright.serve import configure_logging
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


class Logged:
    """Whatever the service logs, as it does in operation, but down to the least important of its own lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.lines = BytesIO()
        self._caplog = caplog

    def text(self) -> str:
        return self.lines.getvalue().decode() + self._caplog.text


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Logged]:
    logged, before = Logged(caplog), structlog.get_config()
    configure_logging("debug")
    factory = structlog.BytesLoggerFactory(logged.lines)
    structlog.configure(
        **structlog.get_config() | {"logger_factory": factory, "cache_logger_on_first_use": False}
    )
    with caplog.at_level(logging.WARNING):
        yield logged
    # As all other tests have it: a service that prints while pytest exchanges the standard output can end the process.
    structlog.configure(**before)
