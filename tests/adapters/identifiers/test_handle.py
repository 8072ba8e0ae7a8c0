"""A Handle server: what is sent, as whom, and what its answers mean."""

from collections.abc import Awaitable, Callable

import pytest

from beamwright.adapters.identifiers.agency import AgencyAccount
from beamwright.adapters.identifiers.handle import HandleMinter
from beamwright.adapters.identifiers.registry import build_minter
from beamwright.kernel.identifiers import (
    IdentifierRefusedError,
    IdentifierUnavailableError,
    MintedIdentifier,
    PersistentIdentifierScheme,
)
from tests.adapters.identifiers.agency import FakeAgency, against_agency

DOI, HANDLE = PersistentIdentifierScheme
SUFFIX = "01900000-0000-7000-8000-000000000001"
PAGE = f"https://beamwright.facility.example/console/assets/{SUFFIX}"

type Scenario = Callable[[FakeAgency, HandleMinter], Awaitable[None]]


def with_minter(scenario: Scenario) -> None:
    async def run(agency: FakeAgency) -> None:
        user = "300:20.500.12345/ADMIN"
        account = AgencyAccount(url=agency.url, prefix="20.500.12345", user=user, password="se/cret")
        minter = build_minter("handle", datacite=account, handle=account)
        assert isinstance(minter, HandleMinter)
        try:
            await scenario(agency, minter)
        finally:
            await minter.aclose()

    against_agency(run)


def test_a_handle_leads_to_the_landing_page_and_is_administered_by_its_prefix() -> None:
    async def scenario(agency: FakeAgency, minter: HandleMinter) -> None:
        minted = await minter.mint(HANDLE, SUFFIX, {"url": PAGE})
        assert minted == MintedIdentifier(value=f"20.500.12345/{SUFFIX}", authority="Handle.Net")
        [sent] = agency.sent
        assert sent.path == f"/api/handles/20.500.12345/{SUFFIX}"
        assert sent.parameters == {"overwrite": "true"}
        url, administrator = sent.body["values"]
        assert (url["type"], url["data"]) == ("URL", {"format": "string", "value": PAGE})
        assert administrator["type"] == "HS_ADMIN"
        assert administrator["data"]["value"]["handle"] == "0.NA/20.500.12345"

    with_minter(scenario)


def test_user_and_password_are_percent_encoded_within_basic_authentication() -> None:
    async def scenario(agency: FakeAgency, minter: HandleMinter) -> None:
        await minter.mint(HANDLE, SUFFIX, {"url": PAGE})
        [sent] = agency.sent
        assert (sent.user, sent.password) == ("300%3A20.500.12345%2FADMIN", "se%2Fcret")

    with_minter(scenario)


def test_a_tombstone_adds_a_description_and_leaves_the_rest() -> None:
    async def scenario(agency: FakeAgency, minter: HandleMinter) -> None:
        await minter.tombstone(HANDLE, f"20.500.12345/{SUFFIX}", "Given out in error.")
        [sent] = agency.sent
        assert sent.parameters == {"overwrite": "true", "index": "2"}
        [value] = sent.body["values"]
        assert (value["index"], value["type"]) == (2, "DESC")
        assert value["data"]["value"] == "Withdrawn: Given out in error."

    with_minter(scenario)


def test_the_answers_mean_what_they_mean_at_datacite() -> None:
    async def scenario(agency: FakeAgency, minter: HandleMinter) -> None:
        agency.answers = [(500, b""), (403, b'{"responseCode":400,"message":"Unauthorized"}')]
        with pytest.raises(IdentifierUnavailableError, match="500"):
            await minter.mint(HANDLE, SUFFIX, {"url": PAGE})
        with pytest.raises(IdentifierRefusedError, match="403 Unauthorized"):
            await minter.mint(HANDLE, SUFFIX, {"url": PAGE})

    with_minter(scenario)


@pytest.mark.parametrize(("scheme", "record"), [(DOI, {"url": PAGE}), (HANDLE, {})])
def test_a_handle_server_gives_out_no_dois_and_needs_a_page(
    scheme: PersistentIdentifierScheme, record: dict[str, str]
) -> None:
    async def scenario(agency: FakeAgency, minter: HandleMinter) -> None:
        with pytest.raises(IdentifierRefusedError):
            await minter.mint(scheme, SUFFIX, record)
        assert agency.sent == []

    with_minter(scenario)
