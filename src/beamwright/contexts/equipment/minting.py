"""How assets and fixtures get their persistent identifiers: entries of the minter's table."""

from uuid import UUID

from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme
from beamwright.kernel.outbox import Identifiable

from .asset import (
    AssetAlternateIdentifierAdded,
    AssetAlternateIdentifierRemoved,
    AssetAttachedToFixture,
    AssetDecommissioned,
    AssetDetachedFromFixture,
    AssetDrawingAssigned,
    AssetFamilyAdded,
    AssetFamilyRemoved,
    AssetInstalledInMount,
    AssetModelAssigned,
    AssetOwnerAdded,
    AssetOwnerRemoved,
    AssetPersistentIdentifierRequested,
    AssetRelocated,
    AssetRenamed,
    AssetUninstalledFromMount,
    assets,
)
from .asset_identifiers import (
    AssignAssetPersistentIdentifier,
    FailAssetPersistentIdentifier,
)
from .fixture import FixturePersistentIdentifierRequested, FixtureRetired, fixtures
from .fixture_identifiers import (
    AssignFixturePersistentIdentifier,
    FailFixturePersistentIdentifier,
)
from .pidinst import for_agency
from .pidinst_reads import GetAssetPidinst, GetFixturePidinst, PidinstFormat


def assign_to_asset(
    id: UUID, scheme: PersistentIdentifierScheme, minted: MintedIdentifier
) -> AssignAssetPersistentIdentifier:
    return AssignAssetPersistentIdentifier(
        asset_id=id, scheme=scheme, value=minted.value, authority=minted.authority
    )


def assign_to_fixture(
    id: UUID, scheme: PersistentIdentifierScheme, minted: MintedIdentifier
) -> AssignFixturePersistentIdentifier:
    return AssignFixturePersistentIdentifier(
        fixture_id=id, scheme=scheme, value=minted.value, authority=minted.authority
    )


IDENTIFIABLE = (
    Identifiable(
        aggregate=assets,
        requested={AssetPersistentIdentifierRequested: lambda event: event.scheme},
        refreshed=frozenset(
            {
                AssetRenamed,
                AssetOwnerAdded,
                AssetOwnerRemoved,
                AssetModelAssigned,
                AssetFamilyAdded,
                AssetFamilyRemoved,
                AssetRelocated,
                AssetInstalledInMount,
                AssetUninstalledFromMount,
                AssetAttachedToFixture,
                AssetDetachedFromFixture,
                AssetDrawingAssigned,
                AssetAlternateIdentifierAdded,
                AssetAlternateIdentifierRemoved,
                AssetDecommissioned,
            }
        ),
        pending=lambda asset: (
            asset.persistent_identifier_request and asset.persistent_identifier_request.scheme
        ),
        read=lambda id: GetAssetPidinst(asset_id=id, format=PidinstFormat.DATACITE),
        record=for_agency,
        assign=assign_to_asset,
        fail=lambda id, reason: FailAssetPersistentIdentifier(asset_id=id, reason=reason),
    ),
    Identifiable(
        aggregate=fixtures,
        requested={FixturePersistentIdentifierRequested: lambda event: event.scheme},
        refreshed=frozenset({FixtureRetired}),
        pending=lambda fixture: (
            fixture.persistent_identifier_request and fixture.persistent_identifier_request.scheme
        ),
        read=lambda id: GetFixturePidinst(fixture_id=id, format=PidinstFormat.DATACITE),
        record=for_agency,
        assign=assign_to_fixture,
        fail=lambda id, reason: FailFixturePersistentIdentifier(fixture_id=id, reason=reason),
    ),
)
