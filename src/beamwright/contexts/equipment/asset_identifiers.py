"""Persistent identifiers of assets: asked for, given or refused by the authority that mints them."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.federation.facility import FacilityCode
from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError, DeniedError, NotFoundError
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.operation import Command, Composite, Issue, Occasion, World
from beamwright.kernel.value import Value

from .asset import (
    Asset,
    AssetCommand,
    AssetLifecycle,
    AssetPersistentIdentifierAssigned,
    AssetPersistentIdentifierFailed,
    AssetPersistentIdentifierRequested,
    InvalidAssetReasonError,
    assets,
    check_in_use,
)
from .asset_assignments import load_model
from .identifiers import IdentifierAuthority, checked_identifier
from .pidinst import check_asset_exportable

PAGE = 200


class AssetCannotRequestPersistentIdentifierError(CannotTransitionError):
    """A decommissioned asset is given no identifier."""


class AssetCannotAssignPersistentIdentifierError(CannotTransitionError):
    """The asset is decommissioned and no request is pending."""


class AssetCannotFailPersistentIdentifierError(CannotTransitionError):
    """No request is pending."""


class AssetPersistentIdentifierAlreadyAssignedError(ConflictError):
    """The asset has a persistent identifier already."""


class AssetPersistentIdentifierAlreadyRequestedError(ConflictError):
    """A request for a persistent identifier is pending."""


class AssetPersistentIdentifierSchemeMismatchError(ConflictError):
    """The pending request asks for an identifier of another scheme."""


class AssetToIdentify(Value):
    """An asset, and the scheme of a request that does not say."""

    asset: Asset
    default_scheme: PersistentIdentifierScheme


@assets.operation("POST /assets/{asset_id}/persistent-identifier/request")
class RequestAssetPersistentIdentifier(Command[AssetToIdentify]):
    """Ask for a persistent identifier, under which the asset can be cited."""

    asset_id: UUID
    scheme: PersistentIdentifierScheme | None = None

    async def gather(self, world: World) -> AssetToIdentify:
        asset = await world.load(assets, self.asset_id)
        # The record that is minted shows the model: loading guards that it is there.
        await load_model(world, asset.model_id)
        return AssetToIdentify(asset=asset, default_scheme=world.installation.persistent_identifier_scheme)

    def decide(self, seen: AssetToIdentify, occasion: Occasion) -> AssetPersistentIdentifierRequested:
        asset = seen.asset
        check_in_use(asset, AssetCannotRequestPersistentIdentifierError)
        check_unassigned(asset)
        check_not_requested(asset)
        check_asset_exportable(asset)
        return AssetPersistentIdentifierRequested(
            asset_id=asset.id,
            occurred_at=occasion.now,
            scheme=self.scheme or seen.default_scheme,
            suffix=str(asset.id),
        )


@assets.operation("POST /assets/{asset_id}/persistent-identifier/assign")
class AssignAssetPersistentIdentifier(AssetCommand):
    """Record the persistent identifier that an authority gave the asset."""

    scheme: PersistentIdentifierScheme
    value: text.Name
    authority: IdentifierAuthority

    def decide(self, asset: Asset, occasion: Occasion) -> AssetPersistentIdentifierAssigned:
        identifier = checked_identifier(self.scheme, self.value, self.authority)
        pending = asset.persistent_identifier_request
        if pending is None:
            check_in_use(asset, AssetCannotAssignPersistentIdentifierError)
        check_unassigned(asset)
        if pending is not None and pending.scheme is not self.scheme:
            raise AssetPersistentIdentifierSchemeMismatchError(
                f"The pending request asks for a {pending.scheme}, not for a {self.scheme}.",
                asset_id=str(asset.id),
                requested=pending.scheme,
                given=self.scheme,
            )
        return AssetPersistentIdentifierAssigned(
            asset_id=asset.id,
            occurred_at=occasion.now,
            scheme=self.scheme,
            value=identifier.value,
            authority=identifier.authority,
        )


@assets.operation("POST /assets/{asset_id}/persistent-identifier/fail")
class FailAssetPersistentIdentifier(AssetCommand):
    """Record that the authority refused the pending request for good."""

    reason: text.Reason

    def decide(self, asset: Asset, occasion: Occasion) -> AssetPersistentIdentifierFailed:
        reason = text.reason(self.reason, InvalidAssetReasonError)
        pending = asset.persistent_identifier_request
        if pending is None:
            raise AssetCannotFailPersistentIdentifierError(
                "No request for a persistent identifier is pending.", asset_id=str(asset.id)
            )
        return AssetPersistentIdentifierFailed(
            asset_id=asset.id, occurred_at=occasion.now, scheme=pending.scheme, reason=reason
        )


def check_unassigned(asset: Asset) -> None:
    """Gate: an asset has one persistent identifier."""
    if asset.external_refs:
        raise AssetPersistentIdentifierAlreadyAssignedError(
            "The asset has a persistent identifier already.",
            asset_id=str(asset.id),
            external_refs={scheme: ref.value for scheme, ref in sorted(asset.external_refs.items())},
        )


def check_not_requested(asset: Asset) -> None:
    """Gate: one request at a time."""
    pending = asset.persistent_identifier_request
    if pending is not None:
        raise AssetPersistentIdentifierAlreadyRequestedError(
            f"A {pending.scheme} has been asked for already; wait for it.",
            asset_id=str(asset.id),
            scheme=pending.scheme,
        )


class SkippedAsset(Value):
    """An asset whose request was refused, and the code of the refusal."""

    asset_id: UUID
    code: str


class RequestedAssetIdentifiers(Value):
    """How many assets without identifier were looked at, for which one was asked, and which were refused."""

    scanned: int
    requested: list[UUID]
    skipped: list[SkippedAsset]


@assets.operation("POST /assets/persistent-identifiers/request")
class RequestMissingAssetPersistentIdentifiers(Composite[RequestedAssetIdentifiers]):
    """Ask for persistent identifiers of the assets that have none, oldest first; each is asked for on its own."""

    scheme: PersistentIdentifierScheme | None = None
    facility_code: FacilityCode | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100

    async def conduct(self, world: World, issue: Issue) -> RequestedAssetIdentifiers:
        requested: list[UUID] = []
        skipped: list[SkippedAsset] = []
        for asset_id in await unidentified(world, self.facility_code, self.limit):
            try:
                await issue(RequestAssetPersistentIdentifier(asset_id=asset_id, scheme=self.scheme))
                requested.append(asset_id)
            except (ConflictError, DeniedError, NotFoundError) as refusal:
                skipped.append(SkippedAsset(asset_id=asset_id, code=type(refusal).__name__))
        return RequestedAssetIdentifiers(
            scanned=len(requested) + len(skipped), requested=requested, skipped=skipped
        )


async def unidentified(world: World, facility_code: str | None, most: int) -> Sequence[UUID]:
    """Assets within the caller's reach that are in use, have no identifier and wait for none, oldest first."""
    found: list[UUID] = []
    listed = {"identified": False, "facility_code": facility_code, "sort": "created_at", "limit": PAGE}
    cursor: str | None = None
    while len(found) < most:
        request: Any = msgspec.convert({**listed, "cursor": cursor}, world.operations["list_assets"].request)
        page = await world.page(assets, request)
        found += [view.id for view in page.items if is_candidate(view)]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:most]


def is_candidate(view: Any) -> bool:
    in_use = view.lifecycle is not AssetLifecycle.DECOMMISSIONED
    return in_use and view.persistent_identifier_request is None
