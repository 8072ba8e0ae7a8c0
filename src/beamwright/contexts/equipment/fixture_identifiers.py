"""Persistent identifiers of fixtures: asked for, given or refused by the authority that mints them."""

from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.errors import CannotTransitionError, ConflictError
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value

from .asset import Asset, assets
from .fixture import (
    Fixture,
    FixturePersistentIdentifierAssigned,
    FixturePersistentIdentifierFailed,
    FixturePersistentIdentifierRequested,
    FixtureStatus,
    InvalidFixtureReasonError,
    fixtures,
)
from .identifiers import IdentifierAuthority, checked_identifier
from .pidinst import check_fixture_exportable


class FixtureCannotRequestPersistentIdentifierError(CannotTransitionError):
    """A retired fixture is given no identifier."""


class FixtureCannotAssignPersistentIdentifierError(CannotTransitionError):
    """The fixture is retired and no request is pending."""


class FixtureCannotFailPersistentIdentifierError(CannotTransitionError):
    """No request is pending."""


class FixturePersistentIdentifierAlreadyAssignedError(ConflictError):
    """The fixture has a persistent identifier already."""


class FixturePersistentIdentifierAlreadyRequestedError(ConflictError):
    """A request for a persistent identifier is pending."""


class FixturePersistentIdentifierSchemeMismatchError(ConflictError):
    """The pending request asks for an identifier of another scheme."""


class FixtureWithAssets(Value):
    """A fixture, its assets, and the scheme of an identifier that does not say."""

    fixture: Fixture
    assets: tuple[Asset, ...]
    default_scheme: PersistentIdentifierScheme


@fixtures.operation("POST /fixtures/{fixture_id}/persistent-identifier/request")
class RequestFixturePersistentIdentifier(Command[FixtureWithAssets]):
    """Ask for a persistent identifier, under which the fixture can be cited."""

    fixture_id: UUID
    scheme: PersistentIdentifierScheme | None = None

    async def gather(self, world: World) -> FixtureWithAssets:
        fixture = await world.load(fixtures, self.fixture_id)
        return FixtureWithAssets(
            fixture=fixture,
            assets=tuple(await world.load_all(assets, fixture.asset_ids)),
            default_scheme=world.installation.persistent_identifier_scheme,
        )

    def decide(self, seen: FixtureWithAssets, occasion: Occasion) -> FixturePersistentIdentifierRequested:
        fixture = seen.fixture
        check_registered(fixture, FixtureCannotRequestPersistentIdentifierError)
        check_unassigned(fixture)
        check_not_requested(fixture)
        check_fixture_exportable(fixture.id, seen.assets)
        return FixturePersistentIdentifierRequested(
            fixture_id=fixture.id,
            occurred_at=occasion.now,
            scheme=self.scheme or seen.default_scheme,
            suffix=str(fixture.id),
        )


@fixtures.operation("POST /fixtures/{fixture_id}/persistent-identifier/assign")
class AssignFixturePersistentIdentifier(Command[Fixture]):
    """Record the persistent identifier that an authority gave the fixture."""

    fixture_id: UUID
    scheme: PersistentIdentifierScheme
    value: text.Name
    authority: IdentifierAuthority

    async def gather(self, world: World) -> Fixture:
        return await world.load(fixtures, self.fixture_id)

    def decide(self, fixture: Fixture, occasion: Occasion) -> FixturePersistentIdentifierAssigned:
        identifier = checked_identifier(self.scheme, self.value, self.authority)
        pending = fixture.persistent_identifier_request
        if pending is None:
            check_registered(fixture, FixtureCannotAssignPersistentIdentifierError)
        check_unassigned(fixture)
        if pending is not None and pending.scheme is not self.scheme:
            raise FixturePersistentIdentifierSchemeMismatchError(
                f"The pending request asks for a {pending.scheme}, not for a {self.scheme}.",
                fixture_id=str(fixture.id),
                requested=pending.scheme,
                given=self.scheme,
            )
        return FixturePersistentIdentifierAssigned(
            fixture_id=fixture.id,
            occurred_at=occasion.now,
            scheme=self.scheme,
            value=identifier.value,
            authority=identifier.authority,
        )


@fixtures.operation("POST /fixtures/{fixture_id}/persistent-identifier/fail")
class FailFixturePersistentIdentifier(Command[Fixture]):
    """Record that the authority refused the pending request for good."""

    fixture_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Fixture:
        return await world.load(fixtures, self.fixture_id)

    def decide(self, fixture: Fixture, occasion: Occasion) -> FixturePersistentIdentifierFailed:
        reason = text.reason(self.reason, InvalidFixtureReasonError)
        pending = fixture.persistent_identifier_request
        if pending is None:
            raise FixtureCannotFailPersistentIdentifierError(
                "No request for a persistent identifier is pending.", fixture_id=str(fixture.id)
            )
        return FixturePersistentIdentifierFailed(
            fixture_id=fixture.id, occurred_at=occasion.now, scheme=pending.scheme, reason=reason
        )


def check_registered(fixture: Fixture, refusal: type[CannotTransitionError]) -> None:
    """Gate: a retired fixture is not cited anew."""
    if fixture.status is not FixtureStatus.REGISTERED:
        raise refusal.of(fixture.id, fixture.status, [FixtureStatus.REGISTERED])


def check_unassigned(fixture: Fixture) -> None:
    """Gate: a fixture has one persistent identifier."""
    if fixture.external_refs:
        raise FixturePersistentIdentifierAlreadyAssignedError(
            "The fixture has a persistent identifier already.",
            fixture_id=str(fixture.id),
            external_refs={scheme: ref.value for scheme, ref in sorted(fixture.external_refs.items())},
        )


def check_not_requested(fixture: Fixture) -> None:
    """Gate: one request at a time."""
    pending = fixture.persistent_identifier_request
    if pending is not None:
        raise FixturePersistentIdentifierAlreadyRequestedError(
            f"A {pending.scheme} has been asked for already; wait for it.",
            fixture_id=str(fixture.id),
            scheme=pending.scheme,
        )
