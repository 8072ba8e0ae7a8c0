"""Persistent identifiers of equipment: how one is written, and that no two records share one."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.event import Claim
from beamwright.kernel.identifiers import MintedIdentifier, PersistentIdentifierScheme
from beamwright.kernel.profiles import ExternalRef

_DOI = r"10\.[0-9]{4,9}/\S+"
_PREFIX = re.compile(r"(doi|hdl|https?):", re.IGNORECASE)

type IdentifierAuthority = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]


class InvalidPersistentIdentifierError(InvalidError):
    """The identifier has a scheme prefix, is no identifier of its scheme, or its authority is blank or too long."""


class PersistentIdentifierTakenError(ConflictError):
    """Another record has this persistent identifier."""


def checked_identifier(scheme: PersistentIdentifierScheme, value: str, authority: str) -> MintedIdentifier:
    """The identifier without surrounding space, if it is written as its scheme asks."""
    value = text.trimmed(value, 200, InvalidPersistentIdentifierError, "identifier")
    authority = text.trimmed(authority, 100, InvalidPersistentIdentifierError, "authority")
    if _PREFIX.match(value):
        raise InvalidPersistentIdentifierError(
            "Give the identifier without its prefix (doi:, hdl:, http:, https:).", value=value
        )
    if scheme is PersistentIdentifierScheme.DOI and not re.fullmatch(_DOI, value):
        raise InvalidPersistentIdentifierError(
            "A DOI begins with 10., a registrant number and a slash.", value=value, pattern=_DOI
        )
    return MintedIdentifier(value=value, authority=authority)


def identifier_claims(external_refs: Mapping[str, ExternalRef]) -> Iterable[Claim]:
    """An identifier names one record for ever; case makes no difference in a DOI."""
    for scheme, ref in external_refs.items():
        value = ref.value.lower() if scheme == PersistentIdentifierScheme.DOI else ref.value
        yield Claim(kind="external-ref", key=f"{scheme}:{value}", taken=PersistentIdentifierTakenError)
