"""The minter that the operator chose."""

from beamwright.kernel.identifiers import IdentifierMinter

from .agency import AgencyAccount
from .datacite import DataCiteMinter
from .handle import HandleMinter
from .stub import StubMinter


def build_minter(name: str, *, datacite: AgencyAccount, handle: AgencyAccount) -> IdentifierMinter:
    """`stub`, `datacite` or `handle`; `ValueError` tells the operator what is wrong with its account."""
    match name:
        case "stub":
            return StubMinter()
        case "datacite":
            return DataCiteMinter(datacite)
        case "handle":
            return HandleMinter(handle)
        case _:
            raise ValueError(f"IDENTIFIER_MINTER is {name!r}; it must be stub, datacite or handle.")
