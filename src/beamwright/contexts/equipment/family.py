"""Family: a device class, what assets of a kind can do and how they are set."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.declared_schema import (
    NumberedSchema,
    Schema,
    checked_schema,
    unit_changes,
)
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, Query, World
from beamwright.kernel.value import Time, Value, encode, replace
from beamwright.kernel.versions import Counted, TaggedVersion, counted, tagged

from .values import Affordance

type FamilyName = Annotated[
    text.Name,
    Meta(
        description="Say in words of the domain what the device is, without a vendor; the name of a separate"
        " control box ends in Controller."
    ),
]


class FamilyStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class FamilyNotFoundError(NotFoundError):
    """There is no such family."""


class InvalidFamilyNameError(InvalidError):
    """The family's name is blank or too long."""


class InvalidFamilySettingsSchemaError(InvalidError):
    """The settings schema is not an acceptable declared schema."""


class InvalidFamilyVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidFamilyReasonError(InvalidError):
    """The reason is blank or too long."""


class FamilyAlreadyExistsError(ConflictError):
    """Another family that is not deprecated has this name."""


class FamilyVersionTagTakenError(ConflictError):
    """The version tag already names a version of the family."""


class FamilyDeprecatedError(ConflictError):
    """A deprecated family is not joined any more."""


class FamilySettingsUnitChangedError(ConflictError):
    """A unit gives stored numbers their meaning: only a new version of the family changes it."""


class FamilyRoleNotSatisfiedError(ConflictError):
    """The family's affordances do not cover what the role requires."""


class FamilyRoleAlreadyPresentError(ConflictError):
    """The family presents this role already."""


class FamilyRoleNotPresentError(ConflictError):
    """The family does not present this role."""


class FamilyCannotVersionError(CannotTransitionError):
    """A deprecated family is not versioned any more."""


class FamilyCannotUpdateSettingsSchemaError(CannotTransitionError):
    """A deprecated family keeps its settings schema."""


class FamilyCannotDeprecateError(CannotTransitionError):
    """The family is deprecated already."""


class FamilyCannotAddRoleError(CannotTransitionError):
    """A deprecated family takes no further role."""


class FamilyCannotRemoveRoleError(CannotTransitionError):
    """A deprecated family keeps its roles."""


class FamilyFact(Event):
    family_id: UUID


class FamilyDefined(FamilyFact):
    name: str
    affordances: frozenset[Affordance]
    settings_schema: Schema | None
    settings_schema_version: int
    presented_role_ids: frozenset[UUID]


class FamilyVersioned(FamilyFact):
    version_tag: str
    affordances: frozenset[Affordance]
    settings_schema: Schema | None
    settings_schema_version: int


class FamilySettingsSchemaUpdated(FamilyFact):
    settings_schema: Schema
    settings_schema_version: int


class FamilyDeprecated(FamilyFact):
    reason: str


class FamilyRoleAdded(FamilyFact):
    role_id: UUID


class FamilyRoleRemoved(FamilyFact):
    role_id: UUID


type FamilyEvent = (
    FamilyDefined
    | FamilyVersioned
    | FamilySettingsSchemaUpdated
    | FamilyDeprecated
    | FamilyRoleAdded
    | FamilyRoleRemoved
)

EDITABLE = frozenset({FamilyStatus.DEFINED, FamilyStatus.VERSIONED})

LIFECYCLE = StateMachine[FamilyStatus](
    {
        FamilyVersioned: move(EDITABLE, FamilyStatus.VERSIONED, FamilyCannotVersionError),
        FamilyDeprecated: move(EDITABLE, FamilyStatus.DEPRECATED, FamilyCannotDeprecateError),
    }
)


class Family(Counted):
    id: UUID
    name: str
    affordances: frozenset[Affordance]
    presented_role_ids: frozenset[UUID]
    settings_schema: Schema | None = None
    settings_schema_version: int = 0
    settings_schemas: tuple[NumberedSchema, ...] = ()
    status: FamilyStatus = FamilyStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    deprecated_at: Time | None = None


@counted
def evolve(family: Family | None, event: FamilyEvent) -> Family:
    match event:
        case FamilyDefined():
            defined = Family(
                id=event.family_id,
                name=event.name,
                affordances=event.affordances,
                presented_role_ids=event.presented_role_ids,
            )
            return _with_schema(defined, event)
        case _ if family is None:
            raise ValueError(event)
        case FamilyVersioned():
            return replace(
                _with_schema(family, event),
                affordances=event.affordances,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(family.version_tags, event.version_tag, family),
            )
        case FamilySettingsSchemaUpdated():
            return _with_schema(family, event)
        case FamilyDeprecated():
            return replace(family, status=LIFECYCLE.after(event), deprecated_at=event.occurred_at)
        case FamilyRoleAdded():
            return replace(family, presented_role_ids=family.presented_role_ids | {event.role_id})
        case FamilyRoleRemoved():
            return replace(family, presented_role_ids=family.presented_role_ids - {event.role_id})
        case _:
            assert_never(event)


def _with_schema(
    family: Family, event: FamilyDefined | FamilyVersioned | FamilySettingsSchemaUpdated
) -> Family:
    """The family with the schema that the event carries, kept under its number when it is a new one."""
    if event.settings_schema is None or event.settings_schema_version == family.settings_schema_version:
        return family
    numbered = NumberedSchema(
        schema_version=event.settings_schema_version,
        schema=event.settings_schema,
        since=event.occurred_at,
    )
    return replace(
        family,
        settings_schema=event.settings_schema,
        settings_schema_version=event.settings_schema_version,
        settings_schemas=(*family.settings_schemas, numbered),
    )


def claims(family: Family) -> list[Claim]:
    """A name is taken while its family is not deprecated."""
    if family.status is FamilyStatus.DEPRECATED:
        return []
    return [Claim(kind="family-name", key=text.folded(family.name), taken=FamilyAlreadyExistsError)]


families = Aggregate[Family, FamilyEvent](
    "Family",
    plural="families",
    events=FamilyEvent,
    evolve=evolve,
    missing=FamilyNotFoundError,
    belongs=lambda family: Belonging.nowhere,
    claims=claims,
)
families.reads(
    "/families",
    filters=(
        "status",
        Filter(
            name="affordance",
            type=Affordance,
            of=lambda family: sorted(family.affordances),
            test=Test.CONTAINS,
        ),
        Filter(
            name="role_id",
            type=UUID,
            of=lambda family: sorted(family.presented_role_ids),
            test=Test.CONTAINS,
        ),
        Filter(name="declared", type=bool, of=lambda family: family.settings_schema is not None),
    ),
    sorts=("name", "created_at"),
    text=("name",),
)


def check_editable(family: Family, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated family stays as it is."""
    if family.status not in EDITABLE:
        raise refusal.of(family.id, family.status, EDITABLE)


def check_families_usable(joined: Iterable[Family]) -> None:
    """Gate: an asset, a model or a slot joins families that are not deprecated."""
    deprecated = [family for family in joined if family.status is FamilyStatus.DEPRECATED]
    if deprecated:
        names = ", ".join(sorted(family.name for family in deprecated))
        raise FamilyDeprecatedError(
            f"Deprecated families are not joined any more: {names}.",
            family_ids=sorted(str(family.id) for family in deprecated),
        )


def schema_differs(was: Schema | None, now: Schema | None) -> bool:
    """Whether two schemas differ as JSON, where true is not 1."""
    return encode(was) != encode(now)


@families.operation("POST /families/{family_id}/update-settings-schema")
class UpdateFamilySettingsSchema(Command[Family]):
    """Declare how assets of a family are set, or replace the declaration without changing a unit."""

    family_id: UUID
    settings_schema: Schema

    async def gather(self, world: World) -> Family:
        return await world.load(families, self.family_id)

    def decide(self, family: Family, occasion: Occasion) -> list[FamilySettingsSchemaUpdated]:
        schema = checked_schema(self.settings_schema, InvalidFamilySettingsSchemaError)
        check_editable(family, FamilyCannotUpdateSettingsSchemaError)
        if not schema_differs(family.settings_schema, schema):
            return []
        check_units_kept(family, schema)
        return [
            FamilySettingsSchemaUpdated(
                family_id=family.id,
                occurred_at=occasion.now,
                settings_schema=schema,
                settings_schema_version=family.settings_schema_version + 1,
            )
        ]


@families.operation("POST /families/{family_id}/deprecate")
class DeprecateFamily(Command[Family]):
    """Deprecate a family: its assets keep it, nothing joins it any more."""

    family_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Family:
        return await world.load(families, self.family_id)

    def decide(self, family: Family, occasion: Occasion) -> FamilyDeprecated:
        reason = text.reason(self.reason, InvalidFamilyReasonError)
        LIFECYCLE.check(FamilyDeprecated, family.status, family.id)
        return FamilyDeprecated(family_id=family.id, occurred_at=occasion.now, reason=reason)


@families.operation("POST /families/{family_id}/roles/remove")
class RemoveFamilyRole(Command[Family]):
    """Stop a family from presenting a role."""

    family_id: UUID
    role_id: UUID

    async def gather(self, world: World) -> Family:
        return await world.load(families, self.family_id)

    def decide(self, family: Family, occasion: Occasion) -> FamilyRoleRemoved:
        check_editable(family, FamilyCannotRemoveRoleError)
        if self.role_id not in family.presented_role_ids:
            raise FamilyRoleNotPresentError(
                f"Family {family.name} does not present role {self.role_id}.",
                family_id=str(family.id),
                role_id=str(self.role_id),
            )
        return FamilyRoleRemoved(family_id=family.id, occurred_at=occasion.now, role_id=self.role_id)


class NumberedSettingsSchema(Value):
    """A settings schema, its number, and since when it holds."""

    settings_schema_version: int
    settings_schema: Schema
    since: Time


class FamilySchemas(Value):
    """Every settings schema that a family ever had, oldest first."""

    items: list[NumberedSettingsSchema]


@families.operation("GET /families/{family_id}/settings-schemas")
class ListFamilySchemas(Query[FamilySchemas]):
    """List every settings schema that a family ever had, by number."""

    family_id: UUID

    async def answer(self, world: World) -> FamilySchemas:
        family = await world.load(families, self.family_id)
        return FamilySchemas(
            items=[
                NumberedSettingsSchema(
                    settings_schema_version=each.schema_version,
                    settings_schema=each.schema,
                    since=each.since,
                )
                for each in family.settings_schemas
            ]
        )


def check_units_kept(family: Family, schema: Schema) -> None:
    """Gate: a property that existed before keeps its unit."""
    changes = unit_changes(family.settings_schema, schema)
    if changes:
        paths = ", ".join(change.path for change in changes)
        raise FamilySettingsUnitChangedError(
            f"The unit of {paths} would change; that is a new meaning of stored numbers: use version_family.",
            family_id=str(family.id),
            changes=changes,
        )
