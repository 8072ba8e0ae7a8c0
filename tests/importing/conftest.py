"""The service runs in the process of these tests: what it logs must not mix with what a command prints."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield
