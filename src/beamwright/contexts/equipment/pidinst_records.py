"""The records that are published of an instrument, member by member: PIDINST 1.0 and DataCite 4."""

from enum import StrEnum

from beamwright.kernel import text
from beamwright.kernel.value import Value

KERNEL_4 = "http://datacite.org/schema/kernel-4"


class PidinstRelation(StrEnum):
    IS_COMPONENT_OF = "IsComponentOf"
    HAS_COMPONENT = "HasComponent"
    IS_ATTACHED_TO = "IsAttachedTo"
    IS_DESCRIBED_BY = "IsDescribedBy"


class PidinstIdentifier(Value, rename="camel"):
    identifier: str
    identifier_type: str


class PidinstOwnerIdentifier(Value, rename="camel"):
    owner_identifier: str
    owner_identifier_type: str


class PidinstOwner(Value, rename="camel", omit_defaults=True):
    owner_name: str
    owner_contact: text.Personal | None = None
    owner_identifier: PidinstOwnerIdentifier | None = None


class PidinstManufacturerIdentifier(Value, rename="camel"):
    manufacturer_identifier: str
    manufacturer_identifier_type: str


class PidinstManufacturer(Value, rename="camel", omit_defaults=True):
    manufacturer_name: str
    manufacturer_identifier: PidinstManufacturerIdentifier | None = None


class PidinstModelIdentifier(Value, rename="camel"):
    model_identifier: str
    model_identifier_type: str


class PidinstModel(Value, rename="camel", omit_defaults=True):
    model_name: str
    model_identifier: PidinstModelIdentifier | None = None


class PidinstInstrumentTypeIdentifier(Value, rename="camel"):
    instrument_type_identifier: str
    instrument_type_identifier_type: str


class PidinstInstrumentType(Value, rename="camel"):
    instrument_type_name: str
    instrument_type_identifier: PidinstInstrumentTypeIdentifier


class PidinstDate(Value, rename="camel"):
    date: str
    date_type: str


class PidinstRelatedIdentifier(Value, rename="camel", omit_defaults=True):
    related_identifier: str
    related_identifier_type: str
    relation_type: PidinstRelation
    related_identifier_name: str | None = None


class PidinstAlternateIdentifier(Value, rename="camel", omit_defaults=True):
    alternate_identifier: str
    alternate_identifier_type: str
    alternate_identifier_name: str | None = None


class PidinstRecord(Value, rename="camel", omit_defaults=True, tag_field="schemaVersion", tag="1.0"):
    """An instrument as PIDINST 1.0 describes it; what is empty is left out."""

    identifier: PidinstIdentifier
    landing_page: str
    name: str
    owners: tuple[PidinstOwner, ...]
    manufacturers: tuple[PidinstManufacturer, ...]
    model: PidinstModel | None = None
    description: str | None = None
    instrument_types: tuple[PidinstInstrumentType, ...] = ()
    measured_variables: tuple[str, ...] = ()
    dates: tuple[PidinstDate, ...] = ()
    related_identifiers: tuple[PidinstRelatedIdentifier, ...] = ()
    alternate_identifiers: tuple[PidinstAlternateIdentifier, ...] = ()


class DataCiteNameIdentifier(Value, rename="camel"):
    name_identifier: str
    name_identifier_scheme: str


class DataCiteCreator(Value, rename="camel", omit_defaults=True):
    name: str
    name_type: str
    name_identifiers: tuple[DataCiteNameIdentifier, ...] = ()


class DataCiteContributor(Value, rename="camel", omit_defaults=True):
    name: str
    name_type: str
    contributor_type: str
    name_identifiers: tuple[DataCiteNameIdentifier, ...] = ()


class DataCiteTitle(Value):
    title: str


class DataCitePublisher(Value):
    name: str


class DataCiteTypes(Value, rename="camel"):
    resource_type_general: str


class DataCiteSubject(Value, rename="camel"):
    subject: str
    value_uri: str


class DataCiteDate(Value, rename="camel"):
    date: str
    date_type: str
    date_information: str


class DataCiteDescription(Value, rename="camel"):
    description: str
    description_type: str


class DataCiteRelatedIdentifier(Value, rename="camel"):
    related_identifier: str
    related_identifier_type: str
    relation_type: str


class DataCiteAlternateIdentifier(Value, rename="camel"):
    alternate_identifier: str
    alternate_identifier_type: str


class DataCiteRecord(Value, rename="camel", omit_defaults=True, tag_field="schemaVersion", tag=KERNEL_4):
    """An instrument as DataCite 4 describes it; what is empty is left out."""

    doi: str | None = None
    url: str
    titles: tuple[DataCiteTitle, ...]
    creators: tuple[DataCiteCreator, ...]
    contributors: tuple[DataCiteContributor, ...]
    publisher: DataCitePublisher
    publication_year: str
    types: DataCiteTypes
    subjects: tuple[DataCiteSubject, ...] = ()
    dates: tuple[DataCiteDate, ...] = ()
    descriptions: tuple[DataCiteDescription, ...] = ()
    related_identifiers: tuple[DataCiteRelatedIdentifier, ...] = ()
    alternate_identifiers: tuple[DataCiteAlternateIdentifier, ...] = ()
