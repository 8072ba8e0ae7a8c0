"""Defining and amending permits: what may flow, with whom, under which keys."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, Value, patched, replace

from .credential import Audience, Credential, CredentialPurpose, checked_audience, credentials
from .facility import Facility, FacilityKind, facilities
from .permit import (
    AMENDABLE,
    PURPOSE,
    ArtifactKind,
    ArtifactTier,
    InvalidPermitReasonError,
    OnwardAction,
    Permit,
    PermitAmended,
    PermitCannotAmendError,
    PermitDefined,
    PermitDirection,
    PermitPurpose,
    PermitTerms,
    ReadScope,
    permits,
)

MOST_CREDENTIALS = 16

type AllowedCredentialIds = Annotated[
    frozenset[UUID], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_CREDENTIALS})
]
type AllowedKinds = Annotated[frozenset[ArtifactKind], Meta(extra_json_schema={"minItems": 1})]
type AcceptedTiers = Annotated[frozenset[ArtifactTier], Meta(extra_json_schema={"minItems": 1})]


class InvalidPermitAudienceError(InvalidError):
    """The audience is not a URI or URN of up to 200 characters."""


class InvalidPermitPurposeError(InvalidError):
    """The purpose does not match its pattern."""


class InvalidPermitCredentialsError(InvalidError):
    """A permit allows 1 to 16 credentials."""


class InvalidPermitArtifactKindsError(InvalidError):
    """A permit allows at least one kind of artifact."""


class InvalidPermitTiersError(InvalidError):
    """A permit accepts at least one tier."""


class InvalidPermitExpiryError(InvalidError):
    """The expiry is not ahead."""


class InvalidPermitTermsError(InvalidError):
    """The terms are those of the other direction, incomplete, or contradict themselves."""


class PermitPeerMismatchError(ConflictError):
    """A permit is for a Peer, not for a Site or an Area."""


class PermitCredentialMismatchError(ConflictError):
    """An allowed credential is not the own Site's for signing (Outbound), or the peer's for verification (Inbound)."""


class PermitParties(Value):
    """The peer of a new permit, the credentials that it allows, and the code of the own Site."""

    peer: Facility
    credentials: tuple[Credential, ...]
    self_facility_code: str


@permits.operation("POST /federation/permits", creates=True)
class DefinePermit(Command[PermitParties]):
    """Define what may flow to or from a peer; it takes effect when it is activated."""

    peer_facility_id: UUID
    audience: Audience
    purpose: PermitPurpose
    direction: PermitDirection
    allowed_credential_ids: AllowedCredentialIds
    allowed_artifact_kinds: AllowedKinds
    accepted_tiers: AcceptedTiers
    terms: PermitTerms
    expires_at: Time | None = None

    def checked(self, now: datetime) -> "DefinePermit":
        """This request with its text trimmed and its terms complete, or the first refusal."""
        audience = checked_audience(self.audience, InvalidPermitAudienceError)
        purpose = text.code(self.purpose, PURPOSE, InvalidPermitPurposeError, "purpose")
        check_credentials_given(self.allowed_credential_ids)
        check_kinds_given(self.allowed_artifact_kinds)
        check_tiers_given(self.accepted_tiers)
        check_expiry(self.expires_at, now)
        terms = checked_terms(self.terms, self.direction)
        return replace(self, audience=audience, purpose=purpose, terms=terms)

    async def gather(self, world: World) -> PermitParties:
        self.checked(world.now)
        return PermitParties(
            peer=await world.load(facilities, self.peer_facility_id),
            credentials=tuple(await world.load_all(credentials, sorted(self.allowed_credential_ids))),
            self_facility_code=world.installation.self_facility_code,
        )

    def decide(self, seen: PermitParties, occasion: Occasion) -> PermitDefined:
        request = self.checked(occasion.now)
        check_is_peer(seen.peer)
        check_credentials_match(self.direction, seen.peer, seen.credentials, seen.self_facility_code)
        return PermitDefined(
            permit_id=occasion.new_id,
            occurred_at=occasion.now,
            site_code=seen.self_facility_code,
            peer_facility_id=request.peer_facility_id,
            audience=request.audience,
            purpose=request.purpose,
            direction=request.direction,
            allowed_credential_ids=request.allowed_credential_ids,
            allowed_artifact_kinds=request.allowed_artifact_kinds,
            accepted_tiers=request.accepted_tiers,
            terms=request.terms,
            expires_at=request.expires_at,
        )


class PermitTermsPatch(Value, forbid_unknown_fields=True):
    """The terms to change; what is absent stays as it is."""

    read_scope: ReadScope | UnsetType = UNSET
    onward_actions: frozenset[OnwardAction] | UnsetType = UNSET
    automatic: bool | UnsetType = UNSET


class PermitWithParties(Value):
    """A permit, its peer, and the credentials that it is to allow."""

    permit: Permit
    peer: Facility
    credentials: tuple[Credential, ...]
    self_facility_code: str


@permits.operation("POST /federation/permits/{permit_id}/amend")
class AmendPermit(Command[PermitWithParties]):
    """Change what a permit allows, from the next artifact on."""

    permit_id: UUID
    reason: text.Reason
    allowed_credential_ids: AllowedCredentialIds | UnsetType = UNSET
    allowed_artifact_kinds: AllowedKinds | UnsetType = UNSET
    accepted_tiers: AcceptedTiers | UnsetType = UNSET
    terms: PermitTermsPatch | UnsetType = UNSET
    expires_at: Time | UnsetType | None = UNSET

    def patched(self, permit: Permit, now: datetime) -> Permit:
        """The permit after this request, or the first refusal of a value."""
        if self.allowed_credential_ids is not UNSET:
            check_credentials_given(self.allowed_credential_ids)
        if self.allowed_artifact_kinds is not UNSET:
            check_kinds_given(self.allowed_artifact_kinds)
        if self.accepted_tiers is not UNSET:
            check_tiers_given(self.accepted_tiers)
        if self.expires_at is not UNSET:
            check_expiry(self.expires_at, now)
        return replace(
            permit,
            allowed_credential_ids=patched(self.allowed_credential_ids, permit.allowed_credential_ids),
            allowed_artifact_kinds=patched(self.allowed_artifact_kinds, permit.allowed_artifact_kinds),
            accepted_tiers=patched(self.accepted_tiers, permit.accepted_tiers),
            terms=patched_terms(permit, self.terms),
            expires_at=patched(self.expires_at, permit.expires_at),
        )

    async def gather(self, world: World) -> PermitWithParties:
        permit = await world.load(permits, self.permit_id)
        text.reason(self.reason, InvalidPermitReasonError)
        allowed = self.patched(permit, world.now).allowed_credential_ids
        return PermitWithParties(
            permit=permit,
            peer=await world.load(facilities, permit.peer_facility_id),
            credentials=tuple(await world.load_all(credentials, sorted(allowed))),
            self_facility_code=world.installation.self_facility_code,
        )

    def decide(self, seen: PermitWithParties, occasion: Occasion) -> list[PermitAmended]:
        reason = text.reason(self.reason, InvalidPermitReasonError)
        old, new = seen.permit, self.patched(seen.permit, occasion.now)
        check_credentials_match(old.direction, seen.peer, seen.credentials, seen.self_facility_code)
        if old.status not in AMENDABLE:
            raise PermitCannotAmendError.of(old.id, old.status, AMENDABLE)
        if new == old:
            return []
        return [
            PermitAmended(
                permit_id=old.id,
                occurred_at=occasion.now,
                allowed_credential_ids=new.allowed_credential_ids,
                allowed_artifact_kinds=new.allowed_artifact_kinds,
                accepted_tiers=new.accepted_tiers,
                terms=new.terms,
                expires_at=new.expires_at,
                reason=reason,
            )
        ]


def check_credentials_given(ids: frozenset[UUID]) -> None:
    if not 1 <= len(ids) <= MOST_CREDENTIALS:
        raise InvalidPermitCredentialsError(
            f"Allow 1 to {MOST_CREDENTIALS} credentials.", most=MOST_CREDENTIALS
        )


def check_kinds_given(kinds: frozenset[ArtifactKind]) -> None:
    if not kinds:
        raise InvalidPermitArtifactKindsError("Allow at least one kind of artifact.")


def check_tiers_given(tiers: frozenset[ArtifactTier]) -> None:
    if not tiers:
        raise InvalidPermitTiersError("Accept at least one tier.")


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidPermitExpiryError(f"The expiry {expires_at} is not ahead.", expires_at=str(expires_at))


def checked_terms(terms: PermitTerms, direction: PermitDirection) -> PermitTerms:
    """The terms of this direction, complete; an Inbound permit is not automatic unless it says so."""
    if direction is PermitDirection.INBOUND:
        if terms.read_scope is not None or terms.onward_actions is not None:
            raise InvalidPermitTermsError("An Inbound permit only says whether it is automatic.")
        return replace(terms, automatic=bool(terms.automatic))
    if terms.automatic is not None or terms.read_scope is None:
        raise InvalidPermitTermsError(
            "An Outbound permit says its read_scope, and not whether it is automatic."
        )
    actions = terms.onward_actions or frozenset()
    if terms.read_scope is ReadScope.METADATA_ONLY and OnwardAction.EXPORT in actions:
        raise InvalidPermitTermsError("Where only metadata is sent there is no content to export.")
    return replace(terms, onward_actions=actions)


def patched_terms(permit: Permit, patch: PermitTermsPatch | UnsetType) -> PermitTerms:
    if patch is UNSET:
        return permit.terms
    merged = PermitTerms(
        read_scope=patched(patch.read_scope, permit.terms.read_scope),
        onward_actions=patched(patch.onward_actions, permit.terms.onward_actions),
        automatic=patched(patch.automatic, permit.terms.automatic),
    )
    return checked_terms(merged, permit.direction)


def check_is_peer(facility: Facility) -> None:
    """Gate: artifacts are exchanged with other installations."""
    if facility.kind is not FacilityKind.PEER:
        raise PermitPeerMismatchError(
            f"{facility.code} is a {facility.kind}; a permit is for a Peer.",
            peer_facility_id=str(facility.id),
            kind=facility.kind,
        )


def check_credentials_match(
    direction: PermitDirection, peer: Facility, credentials: Sequence[Credential], site_code: str
) -> None:
    """Gate: we sign what goes out with our own keys, and verify what comes in with the peer's."""

    def fits(credential: Credential) -> bool:
        if direction is PermitDirection.OUTBOUND:
            return credential.purpose is CredentialPurpose.SIGNING and credential.site_code == site_code
        return credential.purpose is CredentialPurpose.VERIFICATION and credential.facility_id == peer.id

    wrong = sorted(str(credential.id) for credential in credentials if not fits(credential))
    if wrong:
        whose = (
            "the own Site's Signing" if direction is PermitDirection.OUTBOUND else "the peer's Verification"
        )
        raise PermitCredentialMismatchError(
            f"An {direction} permit allows {whose} credentials only.", credential_ids=wrong
        )
