"""Fixtures: the installation that the suites of hostile input share, for starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.faults.attacked import Attacked, attacked
from tests.faults.provider import Outside


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """An identity provider that the installation trusts."""
    with Outside() as outside:
        yield outside


@pytest.fixture(scope="session")
def service(outside: Outside) -> Iterator[Attacked]:
    """A client has a second to send a body, so that waiting for the end of patience takes no longer."""
    environment = {"REQUEST_BODY_SECONDS": "1", "IDENTITY_PROVIDERS": outside.settings()}
    with attacked(environment) as service:
        yield service
