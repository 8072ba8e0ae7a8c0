"""The stub: identifiers that look real."""

import asyncio

import pytest

from beamwright.adapters.identifiers.stub import StubMinter
from beamwright.contexts.equipment.identifiers import checked_identifier
from beamwright.kernel.identifiers import PersistentIdentifierScheme

SUFFIX = "01900000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        (PersistentIdentifierScheme.DOI, f"10.5072/{SUFFIX}"),
        (PersistentIdentifierScheme.HANDLE, f"20.500.12345/{SUFFIX}"),
    ],
)
def test_the_same_suffix_gives_the_same_identifier(scheme: PersistentIdentifierScheme, value: str) -> None:
    first, second = (asyncio.run(StubMinter().mint(scheme, SUFFIX, {})) for _ in range(2))
    assert first == second and first.value == value
    assert checked_identifier(scheme, first.value, first.authority) == first
