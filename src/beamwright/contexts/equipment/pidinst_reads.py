"""Reads of instrument records: everything that the record of an asset or a fixture names, joined."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from beamwright.contexts.access.actor import actors
from beamwright.kernel.operation import Installation, Query, World
from beamwright.kernel.value import Value

from .assembly import assemblies
from .asset import Asset, assets
from .asset_values import (
    AlternateIdentifier,
    AlternateIdentifierKind,
    AssetOwner,
    sorted_identifiers,
)
from .family import Family, families
from .fixture import Fixture, fixtures
from .model import UNKNOWN_PART_NUMBER, Model, models
from .mount import mounts
from .pidinst import (
    Instrument,
    InstrumentKind,
    InstrumentModel,
    Party,
    RelatedResource,
    check_asset_exportable,
    check_fixture_exportable,
    datacite,
    pidinst,
)
from .pidinst_records import DataCiteRecord, PidinstRecord, PidinstRelation
from .role import roles


class PidinstFormat(StrEnum):
    PIDINST = "pidinst"
    DATACITE = "datacite"


class Abilities(Value):
    """What the families of some assets can do and yield."""

    families: tuple[Family, ...]
    affordances: frozenset[str]
    measured_variables: frozenset[str]


@assets.operation("GET /assets/{asset_id}/pidinst")
class GetAssetPidinst(Query[PidinstRecord | DataCiteRecord]):
    """Read the instrument record of an asset, as PIDINST or as DataCite writes it."""

    asset_id: UUID
    format: PidinstFormat = PidinstFormat.PIDINST

    async def answer(self, world: World) -> PidinstRecord | DataCiteRecord:
        asset = await world.load(assets, self.asset_id)
        check_asset_exportable(asset)
        record = pidinst(await asset_instrument(world, asset))
        return await written(world, record, self.format, asset.scope_facility_code, asset.commissioned_at)


@fixtures.operation("GET /fixtures/{fixture_id}/pidinst")
class GetFixturePidinst(Query[PidinstRecord | DataCiteRecord]):
    """Read the instrument record of a fixture, as PIDINST or as DataCite writes it."""

    fixture_id: UUID
    format: PidinstFormat = PidinstFormat.PIDINST

    async def answer(self, world: World) -> PidinstRecord | DataCiteRecord:
        fixture = await world.load(fixtures, self.fixture_id)
        parts = await world.load_all(assets, sorted(set(fixture.asset_ids)))
        check_fixture_exportable(fixture.id, parts)
        # When it was registered is known to the envelope alone.
        registered_at = (await world.view(fixtures, fixture.id, None, None)).created_at
        record = pidinst(await fixture_instrument(world, fixture, parts, registered_at))
        return await written(world, record, self.format, fixture.facility_code, registered_at)


async def written(
    world: World, record: PidinstRecord, format: PidinstFormat, facility_code: str, since: datetime
) -> PidinstRecord | DataCiteRecord:
    if format is PidinstFormat.PIDINST:
        return record
    return datacite(record, await publisher(world, facility_code), since.year)


async def publisher(world: World, facility_code: str) -> str:
    """Who publishes the record: as configured, else the facility by its display name."""
    if world.installation.facility_publisher is not None:
        return world.installation.facility_publisher
    found = await world.look_up("Facility", code=facility_code)
    return found[0].display_name if found else facility_code


async def asset_instrument(world: World, asset: Asset) -> Instrument:
    model = (await load_models(world, [asset]))[0]
    able = await abilities(world, [asset])
    return Instrument(
        id=asset.id,
        external_refs=asset.external_refs,
        landing_page=landing_page(world.installation, "assets", asset.id),
        name=asset.name,
        owners=owner_parties(asset.owners, await contacts(world, asset.owners)),
        manufacturers=(manufacturer_party(model),),
        model=InstrumentModel(name=model.name, part_number=known_part_number(model)),
        affordances=able.affordances,
        kinds=tuple(InstrumentKind(id=family.id, name=family.name) for family in able.families),
        measured_variables=able.measured_variables,
        commissioned_at=asset.commissioned_at,
        decommissioned_at=asset.decommissioned_at,
        related=tuple([*await surroundings(world, asset), *await components(world, asset)]),
        drawing=asset.drawing,
        alternate_identifiers=alternate_identifiers(asset),
    )


async def fixture_instrument(
    world: World, fixture: Fixture, parts: Sequence[Asset], registered_at: datetime
) -> Instrument:
    assembly = await world.load(assemblies, fixture.assembly_id)
    able = await abilities(world, parts, assembly.presented_role_ids)
    owners = [owner for part in parts for owner in part.owners]
    return Instrument(
        id=fixture.id,
        external_refs=fixture.external_refs,
        landing_page=landing_page(world.installation, "fixtures", fixture.id),
        name=assembly.name,
        owners=owner_parties(owners, await contacts(world, owners)),
        manufacturers=tuple(manufacturer_party(model) for model in await load_models(world, parts)),
        affordances=able.affordances,
        kinds=(InstrumentKind(id=assembly.id, name=assembly.name),),
        measured_variables=able.measured_variables,
        commissioned_at=registered_at,
        decommissioned_at=fixture.retired_at,
        related=tuple(related(PidinstRelation.HAS_COMPONENT, part) for part in parts),
        drawing=assembly.drawing,
    )


def landing_page(installation: Installation, resource: str, id: UUID) -> str:
    return installation.landing_page_template.format(base_url=installation.base_url, resource=resource, id=id)


async def load_models(world: World, described: Iterable[Asset]) -> Sequence[Model]:
    return await world.load_all(models, sorted({each.model_id for each in described if each.model_id}))


async def abilities(
    world: World, described: Iterable[Asset], presented: Collection[UUID] = frozenset()
) -> Abilities:
    """Of the assets' families, and of roles that are presented besides."""
    found = await world.load_all(families, sorted({id for each in described for id in each.family_ids}))
    role_ids = {id for family in found for id in family.presented_role_ids} | set(presented)
    played = await world.load_all(roles, sorted(role_ids))
    return Abilities(
        families=tuple(found),
        affordances=frozenset[str](each for family in found for each in family.affordances),
        measured_variables=frozenset(each for role in played for each in role.produces),
    )


async def contacts(world: World, owners: Iterable[AssetOwner]) -> Mapping[UUID, str]:
    """The address of each contact whose profile the caller may read and that still has one."""
    reach = world.reach("get_actor_profile")
    found: dict[UUID, str] = {}
    ids = sorted({owner.contact_actor_id for owner in owners if owner.contact_actor_id is not None})
    for actor in await world.load_all(actors, ids):
        if actor.id == world.caller.principal_id or reach.holds(actors.belongs(actor), reading=True):
            profile = await world.profiles.profile(actor.id)
            if profile is not None and profile.email is not None:
                found[actor.id] = profile.email
    return found


def owner_parties(owners: Iterable[AssetOwner], addresses: Mapping[UUID, str]) -> tuple[Party, ...]:
    return tuple(
        Party(
            name=owner.name,
            identifier=owner.identifier,
            identifier_type=owner.identifier_type,
            contact=addresses.get(owner.contact_actor_id) if owner.contact_actor_id is not None else None,
        )
        for owner in owners
    )


def manufacturer_party(model: Model) -> Party:
    made_by = model.manufacturer
    return Party(name=made_by.name, identifier=made_by.identifier, identifier_type=made_by.identifier_type)


def known_part_number(model: Model) -> str | None:
    return None if model.part_number.casefold() == UNKNOWN_PART_NUMBER else model.part_number


async def surroundings(world: World, asset: Asset) -> list[RelatedResource]:
    """What the asset is part of, and where it is mounted."""
    found: list[RelatedResource] = []
    if asset.parent_id is not None:
        parent = await world.load(assets, asset.parent_id)
        found.append(related(PidinstRelation.IS_COMPONENT_OF, parent))
    if asset.fixture_id is not None:
        fixture = await world.load(fixtures, asset.fixture_id)
        found.append(related(PidinstRelation.IS_COMPONENT_OF, fixture))
    if asset.mount_id is not None:
        mount = await world.load(mounts, asset.mount_id)
        found.append(
            RelatedResource(relation=PidinstRelation.IS_ATTACHED_TO, id=mount.id, name=mount.slot_code)
        )
    return found


async def components(world: World, asset: Asset) -> list[RelatedResource]:
    children = await world.find(assets, parent_id=asset.id)
    in_use = sorted((child for child in children if not child.decommissioned), key=lambda child: child.id)
    return [related(PidinstRelation.HAS_COMPONENT, child) for child in in_use]


def related(relation: PidinstRelation, resource: Asset | Fixture) -> RelatedResource:
    return RelatedResource(relation=relation, id=resource.id, external_refs=resource.external_refs)


def alternate_identifiers(asset: Asset) -> tuple[AlternateIdentifier, ...]:
    """Those that are listed, and the serial number of the settings."""
    serial_number = asset.settings.get("serial_number")
    if not isinstance(serial_number, str):
        return asset.alternate_identifiers
    kind = AlternateIdentifierKind.SERIAL_NUMBER
    listed = {*asset.alternate_identifiers, AlternateIdentifier(kind=kind, value=serial_number)}
    return sorted_identifiers(listed)
