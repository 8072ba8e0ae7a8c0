"""DataCite: what is sent, as whom, and what its answers mean."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from beamwright.adapters.identifiers.agency import MOST_TOLD, AgencyAccount
from beamwright.adapters.identifiers.datacite import DataCiteMinter
from beamwright.adapters.identifiers.registry import build_minter
from beamwright.adapters.identifiers.stub import StubMinter
from beamwright.kernel.identifiers import (
    IdentifierRefusedError,
    IdentifierUnavailableError,
    MintedIdentifier,
    PersistentIdentifierScheme,
)
from tests.adapters.identifiers.agency import FakeAgency, against_agency, faults

DOI, HANDLE = PersistentIdentifierScheme
SUFFIX = "01900000-0000-7000-8000-000000000001"
RECORD: dict[str, Any] = {
    "schemaVersion": "http://datacite.org/schema/kernel-4",
    "url": f"https://beamwright.facility.example/console/assets/{SUFFIX}",
    "titles": [{"title": "Microtomography camera"}],
    "creators": [{"name": "Optics Works", "nameType": "Organizational"}],
    "publisher": {"name": "Home"},
    "publicationYear": "2026",
    "types": {"resourceTypeGeneral": "Instrument"},
}
NOWHERE = AgencyAccount(url="", prefix="", user="", password="")

type Scenario = Callable[[FakeAgency, DataCiteMinter], Awaitable[None]]


def with_minter(scenario: Scenario, timeout: timedelta = timedelta(seconds=5)) -> None:
    async def run(agency: FakeAgency) -> None:
        account = AgencyAccount(url=agency.url, prefix="10.5072", user="HOME.BEAM", password="se:cret")
        minter = DataCiteMinter(account, timeout)
        try:
            await scenario(agency, minter)
        finally:
            await minter.aclose()

    against_agency(run)


def test_a_record_is_published_under_its_doi() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        minted = await minter.mint(DOI, SUFFIX, RECORD)
        assert minted == MintedIdentifier(value=f"10.5072/{SUFFIX}", authority="DataCite")
        [sent] = agency.sent
        assert (sent.path, sent.content_type) == (f"/dois/10.5072/{SUFFIX}", "application/vnd.api+json")
        assert (sent.user, sent.password) == ("HOME.BEAM", "se:cret")
        data = sent.body["data"]
        assert (data["type"], data["attributes"]["event"]) == ("dois", "publish")
        assert data["attributes"]["doi"] == minted.value and faults(data["attributes"]) == []

    with_minter(scenario)


def test_sending_again_updates_the_same_doi() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        first = await minter.mint(DOI, SUFFIX, RECORD)
        second = await minter.mint(DOI, SUFFIX, RECORD | {"titles": [{"title": "Renamed"}]})
        assert first == second and len(agency.records) == 1

    with_minter(scenario)


def test_a_tombstone_hides_the_doi_and_says_why() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        await minter.tombstone(DOI, f"10.5072/{SUFFIX}", "Given out in error.")
        [sent] = agency.sent
        assert sent.path == f"/dois/10.5072/{SUFFIX}"
        assert sent.body["data"]["attributes"] == {
            "event": "hide",
            "descriptions": [{"description": "Given out in error.", "descriptionType": "Other"}],
        }

    with_minter(scenario)


@pytest.mark.parametrize("status", [302, 408, 429, 500, 502, 503, 504])
def test_an_agency_that_is_busy_or_broken_is_asked_again(status: int) -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        agency.answers = [(status, b"later")]
        with pytest.raises(IdentifierUnavailableError, match=f"{status} later"):
            await minter.mint(DOI, SUFFIX, RECORD)

    with_minter(scenario)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_any_other_refusal_is_final(status: int) -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        agency.answers = [(status, b'{"errors":[{"source":"url","title":"is not allowed by this account"}]}')]
        with pytest.raises(IdentifierRefusedError) as refused:
            await minter.mint(DOI, SUFFIX, RECORD)
        assert str(refused.value) == f"{status} is not allowed by this account"

    with_minter(scenario)


@pytest.mark.parametrize(
    "body", [b"\x00<html>" + b"x" * 100_000, b"\xff\xfe\x1b[31m", b'{"errors": "no list"}']
)
def test_what_an_agency_says_is_kept_short_and_printable(body: bytes) -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        agency.answers = [(422, body)]
        with pytest.raises(IdentifierRefusedError) as refused:
            await minter.mint(DOI, SUFFIX, RECORD)
        assert str(refused.value).isprintable() and len(str(refused.value)) <= MOST_TOLD + 4

    with_minter(scenario)


def test_an_agency_that_does_not_answer_is_asked_again() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        agency.silent = True
        with pytest.raises(IdentifierUnavailableError, match="Timeout"):
            await minter.mint(DOI, SUFFIX, RECORD)

    with_minter(scenario, timedelta(milliseconds=200))


def test_an_agency_that_is_not_there_is_asked_again() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        await agency.__aexit__()
        with pytest.raises(IdentifierUnavailableError, match="ConnectError"):
            await minter.mint(DOI, SUFFIX, RECORD)

    with_minter(scenario)


def test_datacite_gives_out_no_handles() -> None:
    async def scenario(agency: FakeAgency, minter: DataCiteMinter) -> None:
        with pytest.raises(IdentifierRefusedError, match="DOI identifiers only"):
            await minter.mint(HANDLE, SUFFIX, RECORD)
        assert agency.sent == []

    with_minter(scenario)


def test_a_password_never_travels_in_the_clear() -> None:
    account = AgencyAccount(url="http://api.datacite.example", prefix="10.5072", user="a", password="b")
    with pytest.raises(ValueError, match="https"):
        build_minter("datacite", datacite=account, handle=NOWHERE)


def test_the_operator_chooses_the_minter() -> None:
    assert isinstance(build_minter("stub", datacite=NOWHERE, handle=NOWHERE), StubMinter)
    with pytest.raises(ValueError, match="stub, datacite or handle"):
        build_minter("crossref", datacite=NOWHERE, handle=NOWHERE)
