"""PIDINST: the published description of an instrument, and the form of it that DataCite takes."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.profiles import ExternalRef
from beamwright.kernel.value import Value, encode, replace

from .asset import Asset
from .asset_values import AlternateIdentifier, AlternateIdentifierKind
from .pidinst_records import (
    DataCiteAlternateIdentifier,
    DataCiteContributor,
    DataCiteCreator,
    DataCiteDate,
    DataCiteDescription,
    DataCiteNameIdentifier,
    DataCitePublisher,
    DataCiteRecord,
    DataCiteRelatedIdentifier,
    DataCiteSubject,
    DataCiteTitle,
    DataCiteTypes,
    PidinstAlternateIdentifier,
    PidinstDate,
    PidinstIdentifier,
    PidinstInstrumentType,
    PidinstInstrumentTypeIdentifier,
    PidinstManufacturer,
    PidinstManufacturerIdentifier,
    PidinstModel,
    PidinstModelIdentifier,
    PidinstOwner,
    PidinstOwnerIdentifier,
    PidinstRecord,
    PidinstRelatedIdentifier,
    PidinstRelation,
)
from .values import Drawing, DrawingSystem


class VirtualAxisNotPidinstableError(ConflictError):
    """A virtual axis is no instrument, so it has no instrument record."""


class AssetOwnerNotAvailableError(ConflictError):
    """The asset has no owner, and an instrument record names one."""


class AssetManufacturerNotAvailableError(ConflictError):
    """The asset has no model, so the instrument record would name no manufacturer."""


class FixtureOwnerNotAvailableError(ConflictError):
    """No asset of the fixture has an owner, and an instrument record names one."""


class FixtureManufacturerNotAvailableError(ConflictError):
    """No asset of the fixture has a model, so the instrument record would name no manufacturer."""


class Party(Value):
    """An organisation; `contact` is personal data, joined for the reader at hand."""

    name: str
    identifier: str | None = None
    identifier_type: str | None = None
    contact: text.Personal | None = None


class InstrumentKind(Value):
    """A device class, or the blueprint of a fixture."""

    id: UUID
    name: str


class InstrumentModel(Value):
    """The vendor's name of the instrument; no part number while it is unknown."""

    name: str
    part_number: str | None = None


class RelatedResource(Value):
    """Another thing that the record points to."""

    relation: PidinstRelation
    id: UUID
    external_refs: Mapping[str, ExternalRef] = {}
    name: str | None = None


class Instrument(Value):
    """What a record says, gathered from an asset or a fixture."""

    id: UUID
    external_refs: Mapping[str, ExternalRef]
    landing_page: str
    name: str
    owners: tuple[Party, ...]
    manufacturers: tuple[Party, ...]
    model: InstrumentModel | None = None
    affordances: frozenset[str] = frozenset()
    kinds: tuple[InstrumentKind, ...] = ()
    measured_variables: frozenset[str] = frozenset()
    commissioned_at: datetime
    decommissioned_at: datetime | None = None
    related: tuple[RelatedResource, ...] = ()
    drawing: Drawing | None = None
    alternate_identifiers: tuple[AlternateIdentifier, ...] = ()


# An attachment to a mount has no counterpart there.
DATACITE_RELATIONS: Mapping[PidinstRelation, str] = {
    PidinstRelation.IS_COMPONENT_OF: "IsPartOf",
    PidinstRelation.HAS_COMPONENT: "HasPart",
    PidinstRelation.IS_DESCRIBED_BY: "IsDescribedBy",
}
COMMISSIONED, DECOMMISSIONED = "Commissioned", "DeCommissioned"
DATACITE_DATES: Mapping[str, str] = {COMMISSIONED: "Commissioned", DECOMMISSIONED: "Decommissioned"}


def check_asset_exportable(asset: Asset) -> None:
    """Gate: an instrument record names a real thing, its owner and its manufacturer."""
    if asset.partition_rule is not None:
        raise VirtualAxisNotPidinstableError(
            f"Asset {asset.id} is a virtual axis; cite the assets that it is made of.", asset_id=str(asset.id)
        )
    if not asset.owners:
        raise AssetOwnerNotAvailableError(
            f"Asset {asset.id} has no owner. Add one with add_asset_owner.", asset_id=str(asset.id)
        )
    if asset.model_id is None:
        raise AssetManufacturerNotAvailableError(
            f"Asset {asset.id} has no model. Assign one with assign_asset_model.", asset_id=str(asset.id)
        )


def check_fixture_exportable(fixture_id: UUID, assets: Collection[Asset]) -> None:
    """Gate: some asset of the fixture names an owner, and some a model."""
    if not any(asset.owners for asset in assets):
        raise FixtureOwnerNotAvailableError(
            f"No asset of fixture {fixture_id} has an owner. Add one with add_asset_owner.",
            fixture_id=str(fixture_id),
        )
    if all(asset.model_id is None for asset in assets):
        raise FixtureManufacturerNotAvailableError(
            f"No asset of fixture {fixture_id} has a model. Assign one with assign_asset_model.",
            fixture_id=str(fixture_id),
        )


def pidinst(instrument: Instrument) -> PidinstRecord:
    """The record of an instrument, in the order that its properties are listed."""
    return PidinstRecord(
        identifier=_identifier(instrument.id, instrument.external_refs),
        landing_page=instrument.landing_page,
        name=instrument.name,
        owners=tuple(_owner(each) for each in distinct(instrument.owners)),
        manufacturers=tuple(_manufacturer(each) for each in distinct(instrument.manufacturers)),
        model=_model(instrument.model),
        description=_named_list("Affordances", instrument.affordances),
        instrument_types=tuple(
            _instrument_type(kind) for kind in sorted(instrument.kinds, key=lambda kind: (kind.name, kind.id))
        ),
        measured_variables=tuple(sorted(instrument.measured_variables)),
        dates=tuple(_dates(instrument)),
        related_identifiers=tuple(_related(instrument)),
        alternate_identifiers=tuple(_alternate(each) for each in instrument.alternate_identifiers),
    )


def datacite(record: PidinstRecord, publisher: str, publication_year: int) -> DataCiteRecord:
    """The same record in DataCite's terms."""
    named = record.identifier
    return DataCiteRecord(
        doi=named.identifier if named.identifier_type == PersistentIdentifierScheme.DOI else None,
        url=record.landing_page,
        titles=(DataCiteTitle(title=record.name),),
        creators=tuple(_creator(each) for each in record.manufacturers),
        contributors=tuple(_contributor(each) for each in record.owners),
        publisher=DataCitePublisher(name=publisher),
        publication_year=f"{publication_year:04d}",
        types=DataCiteTypes(resource_type_general="Instrument"),
        subjects=tuple(
            DataCiteSubject(
                subject=each.instrument_type_name,
                value_uri=each.instrument_type_identifier.instrument_type_identifier,
            )
            for each in record.instrument_types
        ),
        dates=tuple(
            DataCiteDate(date=each.date, date_type="Other", date_information=DATACITE_DATES[each.date_type])
            for each in record.dates
        ),
        descriptions=tuple(_descriptions(record)),
        related_identifiers=tuple(_datacite_related(record)),
        alternate_identifiers=tuple(
            DataCiteAlternateIdentifier(
                alternate_identifier=each.alternate_identifier,
                # Free text there, so the name says more than “Other” does.
                alternate_identifier_type=each.alternate_identifier_name or each.alternate_identifier_type,
            )
            for each in record.alternate_identifiers
        ),
    )


def for_agency(record: DataCiteRecord) -> dict[str, Any]:
    """What a registration agency gets: of the relations, only those that resolve for everyone."""
    related = tuple(
        each
        for each in record.related_identifiers
        if each.related_identifier_type in tuple(PersistentIdentifierScheme)
    )
    return msgspec.json.decode(encode(replace(record, related_identifiers=related)))


def distinct(parties: Iterable[Party]) -> list[Party]:
    """Each organisation once per name and identifier, by name; the first contact stays."""
    found: dict[tuple[str, str], Party] = {}
    for party in parties:
        key = (party.name, party.identifier or "")
        known = found.setdefault(key, party)
        if known.contact is None:
            found[key] = party
    return [found[key] for key in sorted(found)]


def _identifier(id: UUID, external_refs: Mapping[str, ExternalRef]) -> PidinstIdentifier:
    """The DOI or Handle where there is one, else the id that everything has."""
    for scheme in PersistentIdentifierScheme:
        if scheme in external_refs:
            return PidinstIdentifier(identifier=external_refs[scheme].value, identifier_type=scheme)
    return PidinstIdentifier(identifier=id.urn, identifier_type="URN")


def _owner(party: Party) -> PidinstOwner:
    return PidinstOwner(
        owner_name=party.name,
        owner_contact=party.contact,
        owner_identifier=PidinstOwnerIdentifier(
            owner_identifier=party.identifier, owner_identifier_type=party.identifier_type
        )
        if party.identifier and party.identifier_type
        else None,
    )


def _manufacturer(party: Party) -> PidinstManufacturer:
    return PidinstManufacturer(
        manufacturer_name=party.name,
        manufacturer_identifier=PidinstManufacturerIdentifier(
            manufacturer_identifier=party.identifier, manufacturer_identifier_type=party.identifier_type
        )
        if party.identifier and party.identifier_type
        else None,
    )


def _model(model: InstrumentModel | None) -> PidinstModel | None:
    if model is None:
        return None
    part_number = model.part_number
    identifier = part_number and PidinstModelIdentifier(
        model_identifier=part_number, model_identifier_type="PartNumber"
    )
    return PidinstModel(model_name=model.name, model_identifier=identifier or None)


def _instrument_type(kind: InstrumentKind) -> PidinstInstrumentType:
    return PidinstInstrumentType(
        instrument_type_name=kind.name,
        instrument_type_identifier=PidinstInstrumentTypeIdentifier(
            instrument_type_identifier=kind.id.urn, instrument_type_identifier_type="URN"
        ),
    )


def _dates(instrument: Instrument) -> Iterable[PidinstDate]:
    commissioned, ended = instrument.commissioned_at, instrument.decommissioned_at
    yield PidinstDate(date=commissioned.date().isoformat(), date_type=COMMISSIONED)
    if ended is not None:
        yield PidinstDate(date=ended.date().isoformat(), date_type=DECOMMISSIONED)


def _related(instrument: Instrument) -> Iterable[PidinstRelatedIdentifier]:
    for each in instrument.related:
        named = _identifier(each.id, each.external_refs)
        yield PidinstRelatedIdentifier(
            related_identifier=named.identifier,
            related_identifier_type=named.identifier_type,
            relation_type=each.relation,
            related_identifier_name=each.name,
        )
    if instrument.drawing is not None and instrument.drawing.system is DrawingSystem.DOI:
        yield PidinstRelatedIdentifier(
            related_identifier=instrument.drawing.number,
            related_identifier_type="DOI",
            relation_type=PidinstRelation.IS_DESCRIBED_BY,
        )


def _alternate(identifier: AlternateIdentifier) -> PidinstAlternateIdentifier:
    if identifier.kind is AlternateIdentifierKind.CONTROLSYS_PV:
        return PidinstAlternateIdentifier(
            alternate_identifier=identifier.value,
            alternate_identifier_type=AlternateIdentifierKind.OTHER,
            alternate_identifier_name=identifier.kind,
        )
    return PidinstAlternateIdentifier(
        alternate_identifier=identifier.value, alternate_identifier_type=identifier.kind
    )


def _named_list(title: str, names: Collection[str]) -> str | None:
    return f"{title}: {', '.join(sorted(names))}" if names else None


def _creator(manufacturer: PidinstManufacturer) -> DataCiteCreator:
    given = manufacturer.manufacturer_identifier
    return DataCiteCreator(
        name=manufacturer.manufacturer_name,
        name_type="Organizational",
        name_identifiers=_name_identifiers(
            given and (given.manufacturer_identifier, given.manufacturer_identifier_type)
        ),
    )


def _contributor(owner: PidinstOwner) -> DataCiteContributor:
    given = owner.owner_identifier
    return DataCiteContributor(
        name=owner.owner_name,
        name_type="Organizational",
        contributor_type="HostingInstitution",
        name_identifiers=_name_identifiers(given and (given.owner_identifier, given.owner_identifier_type)),
    )


def _name_identifiers(given: tuple[str, str] | None) -> tuple[DataCiteNameIdentifier, ...]:
    if given is None:
        return ()
    return (DataCiteNameIdentifier(name_identifier=given[0], name_identifier_scheme=given[1]),)


def _descriptions(record: PidinstRecord) -> Iterable[DataCiteDescription]:
    if record.description is not None:
        yield DataCiteDescription(description=record.description, description_type="Abstract")
    if record.model is not None:
        part = record.model.model_identifier
        number = f" ({part.model_identifier_type} {part.model_identifier})" if part is not None else ""
        model = f"Model: {record.model.model_name}{number}"
        yield DataCiteDescription(description=model, description_type="TechnicalInfo")
    measured = _named_list("Measured variables", record.measured_variables)
    if measured is not None:
        yield DataCiteDescription(description=measured, description_type="TechnicalInfo")


def _datacite_related(record: PidinstRecord) -> Iterable[DataCiteRelatedIdentifier]:
    for each in record.related_identifiers:
        if each.relation_type in DATACITE_RELATIONS:
            yield DataCiteRelatedIdentifier(
                related_identifier=each.related_identifier,
                related_identifier_type=each.related_identifier_type,
                relation_type=DATACITE_RELATIONS[each.relation_type],
            )
