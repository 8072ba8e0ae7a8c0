"""The identifier minter: exactly one identifier for a request, through crashes, outages and refusals."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from beamwright.adapters.identifiers.agency import AgencyAccount
from beamwright.adapters.identifiers.datacite import DataCiteMinter
from beamwright.contexts.access.actor import ForgetActor, RegisterActor
from beamwright.contexts.equipment.asset import AssetNotFoundError
from beamwright.contexts.equipment.asset_identifiers import (
    AssignAssetPersistentIdentifier,
    FailAssetPersistentIdentifier,
    RequestAssetPersistentIdentifier,
)
from beamwright.contexts.equipment.asset_moves import RenameAsset
from beamwright.contexts.equipment.asset_parts import RemoveAssetOwner
from beamwright.contexts.equipment.asset_tree import DecommissionAsset
from beamwright.contexts.equipment.asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
)
from beamwright.contexts.equipment.fixture_identifiers import RequestFixturePersistentIdentifier
from beamwright.contexts.equipment.fixture_registration import RetireFixture
from beamwright.contexts.equipment.identifier_requests import ListIdentifierRequests
from beamwright.contexts.equipment.pidinst import AssetOwnerNotAvailableError
from beamwright.contexts.equipment.pidinst_reads import GetAssetPidinst, GetFixturePidinst, PidinstFormat
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import AuthorizationDeniedError
from beamwright.kernel.identifiers import (
    IdentifierRefusedError,
    IdentifierUnavailableError,
)
from beamwright.kernel.outbox import IdentifierRequest, OutboxPurpose
from beamwright.runtime.call import Call
from beamwright.runtime.outbox_worker import back_off
from tests.adapters.identifiers.agency import FakeAgency, faults
from tests.live import Cluster
from tests.runtime.minting_bench import DOI, DONE, FAILED, HANDLE, PENDING, Bench, Home, on_bench, typed_in


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Home:
    return Home(cluster.data, cluster.database())


def test_a_request_ends_in_one_identifier(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        await bench.work()
        await bench.work()
        assert await bench.events(asset_id) == ["Requested", "Assigned"]
        assert await bench.refs(asset_id) == {"DOI": f"10.5072/{asset_id}"}
        assert (await bench.row(asset_id)).state is DONE and bench.agency.minted == [str(asset_id)]

    on_bench(home, check)


def test_a_minter_that_dies_after_minting_mints_the_same_again(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        bench.agency.troubles = [asyncio.CancelledError()]
        with pytest.raises(asyncio.CancelledError):
            await bench.work()
        await bench.work()
        assert len(bench.agency.minted) == 1, "the row stays claimed for a while"
        bench.clock.ahead = timedelta(minutes=5, seconds=1)
        await bench.work()
        assert bench.agency.minted == [str(asset_id), str(asset_id)]
        assert await bench.events(asset_id) == ["Requested", "Assigned"]

    on_bench(home, check)


def test_a_minter_that_dies_after_assigning_assigns_no_second_time(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        await bench.work()
        for forgotten in ("UPDATE identifier_outbox SET state = 'Pending'", "DELETE FROM idempotency"):
            await bench.app.database.execute(forgotten)
            await bench.app.database.execute("UPDATE identifier_outbox SET state = 'Pending'")
            await bench.work()
            assert (await bench.row(asset_id)).state is DONE
        assert await bench.events(asset_id) == ["Requested", "Assigned"]
        assert len(bench.agency.minted) == 3 and bench.agency.tombstoned == []

    on_bench(home, check)


@pytest.mark.parametrize("ending", [None, IdentifierUnavailableError("the second")], ids=["done", "put off"])
def test_an_attempt_that_slept_through_its_term_changes_nothing_of_a_later_one(
    home: Home, ending: Exception | None
) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        later: list[IdentifierRequest] = []

        async def another_attempt() -> None:
            bench.agency.meanwhile = None
            bench.agency.troubles = [ending] if ending is not None else []
            bench.clock.ahead = timedelta(minutes=5, seconds=1)
            await bench.work()
            later.append(await bench.row(asset_id))
            bench.agency.troubles = [IdentifierUnavailableError("the first")]

        bench.agency.meanwhile = another_attempt
        await bench.work()
        assert later[0].attempts == 2 and later[0].state is (PENDING if ending else DONE)
        assert [await bench.row(asset_id)] == later

    on_bench(home, check)


def test_requests_are_found_again_when_outbox_and_bookmark_are_lost(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        await bench.minting().enqueue()
        await bench.minting().enqueue()
        assert len(await bench.rows(asset_id)) == 1
        await bench.app.database.execute("DELETE FROM identifier_outbox")
        await bench.app.database.execute("DELETE FROM projections WHERE name = 'identifier-minter'")
        await bench.work()
        assert await bench.events(asset_id) == ["Requested", "Assigned"]

    on_bench(home, check)


def test_the_agency_is_not_asked_for_what_was_refused(home: Home) -> None:
    async def check(bench: Bench) -> None:
        nobodys, asset_id = await bench.asset(owners=()), await bench.asset()
        stranger = Call(
            caller=Caller(principal_id=wellknown.SCHEDULER, kind="service_account"),
            surface_id=wellknown.IN_PROCESS_SURFACE,
            conduit_id=wellknown.SERVICE_CONDUIT,
            correlation_id="test",
        )
        with pytest.raises(AssetOwnerNotAvailableError):
            await bench.issue(RequestAssetPersistentIdentifier(asset_id=nobodys))
        with pytest.raises(AssetNotFoundError):
            await bench.issue(RequestAssetPersistentIdentifier(asset_id=uuid4()))
        with pytest.raises(AuthorizationDeniedError):
            await bench.issue(RequestAssetPersistentIdentifier(asset_id=asset_id), stranger)
        await bench.work()
        assert bench.agency.minted == []

    on_bench(home, check)


def test_an_agency_that_is_away_is_asked_again_later(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        bench.agency.troubles = [IdentifierUnavailableError("503 busy"), IdentifierUnavailableError("429")]
        await bench.work()
        await bench.work()
        row = await bench.row(asset_id)
        assert (row.state, row.attempts) == (PENDING, 1)
        assert row.last_error == "IdentifierUnavailableError: 503 busy"
        bench.clock.ahead = timedelta(seconds=31)
        await bench.work()
        bench.clock.ahead = timedelta(seconds=31 + 59)
        await bench.work()
        assert len(bench.agency.minted) == 2, "the second wait is a minute"
        bench.clock.ahead = timedelta(seconds=31 + 61)
        await bench.work()
        row = await bench.row(asset_id)
        assert (row.state, row.attempts, row.last_error) == (DONE, 3, None)
        assert await bench.events(asset_id) == ["Requested", "Assigned"]

    on_bench(home, check)


def test_the_wait_doubles_from_half_a_minute_to_an_hour() -> None:
    waits = [back_off(attempts).total_seconds() for attempts in (1, 2, 3, 7, 8, 9, 10_000)]
    assert waits == [30, 60, 120, 1920, 3600, 3600, 3600]


def test_a_final_refusal_fails_the_request_and_allows_another(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        bench.agency.troubles = [IdentifierRefusedError("422 prefix is not yours\n" + "x" * 1000)]
        await bench.work()
        row = await bench.row(asset_id)
        assert row.state is FAILED and str(row.last_error).startswith("422 prefix is not yours x")
        await bench.issue(RequestAssetPersistentIdentifier(asset_id=asset_id, scheme=HANDLE))
        await bench.work()
        assert await bench.events(asset_id) == ["Requested", "Failed", "Requested", "Assigned"]
        assert await bench.refs(asset_id) == {"Handle": f"20.500.12345/{asset_id}"}

    on_bench(home, check)


def test_a_record_that_cannot_be_exported_any_more_fails_the_request(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        await bench.issue(RemoveAssetOwner(asset_id=asset_id, owner_name="Photon Source"))
        await bench.work()
        row = await bench.row(asset_id)
        assert row.state is FAILED and str(row.last_error).startswith("AssetOwnerNotAvailableError")
        assert bench.agency.minted == []

    on_bench(home, check)


def test_an_identifier_that_was_overtaken_is_taken_back(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        bench.agency.meanwhile = lambda: bench.issue(typed_in(asset_id))
        await bench.work()
        assert (await bench.row(asset_id)).state is DONE
        assert bench.agency.tombstoned == [f"10.5072/{asset_id}"]
        assert await bench.refs(asset_id) == {"DOI": typed_in(asset_id).value}

    on_bench(home, check)


def test_a_request_that_is_over_is_not_minted(home: Home) -> None:
    async def check(bench: Bench) -> None:
        identified, withdrawn = await bench.requested(), await bench.requested()
        await bench.issue(typed_in(identified))
        await bench.issue(FailAssetPersistentIdentifier(asset_id=withdrawn, reason="asked for by mistake"))
        await bench.work()
        assert (await bench.row(identified)).state is DONE and (await bench.row(withdrawn)).state is FAILED
        assert bench.agency.minted == [] and bench.agency.tombstoned == []

    on_bench(home, check)


def test_an_identifier_that_another_record_has_fails_the_request(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id, other = await bench.requested(), await bench.asset()
        value = f"10.5072/{asset_id}"
        await bench.issue(
            AssignAssetPersistentIdentifier(asset_id=other, scheme=DOI, value=value, authority="me")
        )
        await bench.work()
        row = await bench.row(asset_id)
        assert row.state is FAILED and str(row.last_error).startswith("PersistentIdentifierTakenError")
        assert bench.agency.tombstoned == [], "it is the other record's"

    on_bench(home, check)


def test_a_changed_record_is_sent_again_at_most_once_a_minute(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        await bench.work()
        for name in ("Left camera", "Right camera"):
            await bench.issue(RenameAsset(asset_id=asset_id, name=name))
            await bench.work()
        assert len(bench.agency.minted) == 1
        bench.clock.ahead = timedelta(seconds=61)
        await bench.work()
        assert [record["titles"] for record in bench.agency.records] == [
            [{"title": "Camera"}],
            [{"title": "Right camera"}],
        ]
        assert [row.purpose for row in await bench.rows(asset_id)] == [
            OutboxPurpose.REFRESH,
            OutboxPurpose.MINT,
        ]
        await bench.issue(DecommissionAsset(asset_id=asset_id, reason="worn out"))
        await bench.work()
        assert len(bench.agency.minted) == 2
        bench.clock.ahead = timedelta(seconds=123)
        await bench.work()
        assert [each["dateInformation"] for each in bench.agency.records[2]["dates"]] == [
            "Commissioned",
            "Decommissioned",
        ]
        assert (await bench.events(asset_id))[2:] == ["AssetRenamed", "AssetRenamed", "AssetDecommissioned"]

    on_bench(home, check)


def test_a_change_while_the_record_is_under_way_is_sent_afterwards(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        bench.agency.meanwhile = lambda: bench.issue(RenameAsset(asset_id=asset_id, name=uuid4().hex))
        await bench.work()
        bench.agency.meanwhile = None
        await bench.work()
        bench.clock.ahead = timedelta(seconds=61)
        await bench.work()
        assert len(bench.agency.minted) == 2

    on_bench(home, check)


def test_what_has_no_identifier_of_ours_is_not_sent_again(home: Home) -> None:
    async def check(bench: Bench) -> None:
        plain, foreign = await bench.asset(), await bench.asset()
        await bench.issue(typed_in(foreign))
        for asset_id in (plain, foreign):
            await bench.issue(RenameAsset(asset_id=asset_id, name="Renamed"))
        await bench.work()
        assert await bench.rows(plain) == [] and await bench.rows(foreign) == []

    on_bench(home, check)


def test_datacite_gets_a_record_that_its_schema_allows(home: Home) -> None:
    async def check(bench: Bench) -> None:
        parent_id = await bench.requested()
        await bench.work()
        asset_id = await bench.requested(parent_id=parent_id, settings={"serial_number": "A-17"})
        async with FakeAgency() as agency:
            account = AgencyAccount(url=agency.url, prefix="10.5072", user="HOME.BEAM", password="secret")
            minter = DataCiteMinter(account)
            await bench.work(minter)
            await minter.aclose()
        [sent] = agency.sent
        record = sent.body["data"]["attributes"]
        assert faults(record) == [] and record["doi"] == f"10.5072/{asset_id}"
        assert record["relatedIdentifiers"] == [
            {
                "relatedIdentifier": f"10.5072/{parent_id}",
                "relatedIdentifierType": "DOI",
                "relationType": "IsPartOf",
            }
        ]
        assert record["url"].endswith(f"/console/assets/{asset_id}")
        assert await bench.refs(asset_id) == {"DOI": record["doi"]}

    on_bench(home, check)


def test_a_contact_is_joined_for_its_reader_and_gone_with_the_actor(home: Home) -> None:
    async def check(bench: Bench) -> None:
        email = "imaging@facility.example"
        contact = (await bench.issue(RegisterActor(name="Ada", email=email))).actor_id
        variable = AlternateIdentifier(kind=AlternateIdentifierKind.CONTROLSYS_PV, value="2bm:cam1")
        asset_id = await bench.asset(
            parent_id=await bench.asset(),
            owners=(AssetOwner(name="Photon Source", contact_actor_id=contact),),
            alternate_identifiers=(variable,),
        )
        minter = Call(
            caller=Caller(principal_id=wellknown.IDENTIFIER_MINTER, kind="service_account"),
            surface_id=wellknown.IN_PROCESS_SURFACE,
            conduit_id=wellknown.SERVICE_CONDUIT,
            correlation_id="test",
        )
        read = GetAssetPidinst(asset_id=asset_id)
        assert (await bench.issue(read)).owners[0].owner_contact == email
        assert (await bench.issue(read, minter)).owners[0].owner_contact is None
        [alternate] = (await bench.issue(read)).alternate_identifiers
        assert alternate.alternate_identifier_type == "Other"
        await bench.issue(ForgetActor(actor_id=contact))
        assert (await bench.issue(read)).owners[0].owner_contact is None
        in_datacite = await bench.issue(GetAssetPidinst(asset_id=asset_id, format=PidinstFormat.DATACITE))
        assert in_datacite.publisher.name == "home"

    on_bench(home, check)


def test_an_installed_asset_names_its_parent_its_mount_and_its_fixture(home: Home) -> None:
    async def check(bench: Bench) -> None:
        parent_id = await bench.requested()
        await bench.work()
        asset_id = await bench.asset(parent_id=parent_id)
        mount_id = await bench.installed(asset_id)
        fixture_id = await bench.fixture(asset_id)
        record = await bench.issue(GetAssetPidinst(asset_id=asset_id))
        assert [(each.relation_type, each.related_identifier) for each in record.related_identifiers] == [
            ("IsComponentOf", f"10.5072/{parent_id}"),
            ("IsComponentOf", f"urn:uuid:{fixture_id}"),
            ("IsAttachedTo", f"urn:uuid:{mount_id}"),
        ]
        [component] = (await bench.issue(GetAssetPidinst(asset_id=parent_id))).related_identifiers
        assert (component.relation_type, component.related_identifier) == (
            "HasComponent",
            f"urn:uuid:{asset_id}",
        )

    on_bench(home, check)


def test_a_fixture_is_identified_and_its_retirement_sent(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.asset()
        await bench.installed(asset_id)
        fixture_id = await bench.fixture(asset_id)
        await bench.issue(RequestFixturePersistentIdentifier(fixture_id=fixture_id))
        await bench.work()
        await bench.issue(RetireFixture(fixture_id=fixture_id, reason="taken apart"))
        await bench.work()
        bench.clock.ahead = timedelta(seconds=61)
        await bench.work()
        minted, retired = bench.agency.records
        assert bench.agency.minted == [str(fixture_id)] * 2 and faults(retired) == []
        assert minted["titles"] == [{"title": "Tomograph"}] == retired["titles"]
        assert (len(minted["dates"]), len(retired["dates"])) == (1, 2)
        record = await bench.issue(GetFixturePidinst(fixture_id=fixture_id))
        assert record.identifier.identifier == f"10.5072/{fixture_id}"
        [component] = record.related_identifiers
        assert component.related_identifier == f"urn:uuid:{asset_id}" and record.model is None

    on_bench(home, check)


def test_identifier_requests_are_filtered_and_paged_newest_first(home: Home) -> None:
    async def check(bench: Bench) -> None:
        made = [await bench.requested() for _ in range(3)]
        await bench.work()
        first = await bench.issue(ListIdentifierRequests(limit=2, state=DONE, aggregate="Asset"))
        rest = await bench.issue(ListIdentifierRequests(limit=2, cursor=first.next_cursor))
        assert [row.id for row in [*first.items, *rest.items]] == made[::-1] and rest.next_cursor is None
        for given in ({"state": FAILED}, {"aggregate": "Fixture"}, {"scheme": HANDLE}):
            assert (await bench.issue(ListIdentifierRequests(**given))).items == []

    on_bench(home, check)


def test_only_one_process_mints(home: Home) -> None:
    async def check(bench: Bench) -> None:
        asset_id = await bench.requested()
        assert await bench.app.leases.take("identifier-minter", uuid4(), 100)
        running = asyncio.create_task(bench.minting().run())
        await asyncio.sleep(0.2)
        assert bench.agency.minted == []
        await bench.app.database.execute("DELETE FROM leases WHERE name = 'identifier-minter'")
        while not await bench.refs(asset_id):
            await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await bench.events(asset_id) == ["Requested", "Assigned"]

    on_bench(home, check)
