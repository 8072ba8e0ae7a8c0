"""What is said of data wherever they are: how to find, read and verify them."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.compute import SHA256, Checksum
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Value, replace

MOST_BYTES = 2**63 - 1
MOST_FILES = 2**63 - 1
LONGEST_URI = 2048
MOST_PROFILES = 16
URI = r"^[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"
MEDIA_TYPE = r"^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$"
# A browser that follows one of these runs or shows what the address itself says.
RUN_BY_BROWSERS = frozenset({"javascript", "vbscript", "data", "about", "view-source"})

type DataUri = Annotated[
    str,
    Meta(
        description="an absolute URI, without user name or password",
        extra_json_schema={"minLength": 1, "maxLength": LONGEST_URI, "pattern": URI},
    ),
]
type MediaType = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200, "pattern": MEDIA_TYPE})
]
type ByteSize = Annotated[
    int,
    Meta(
        extra_json_schema={
            "minimum": 0,
            "maximum": MOST_BYTES,
            "unit": {"system": "ucum", "code": "By"},
        }
    ),
]
type FileCount = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST_FILES})]


class Encoding(Value):
    """How data are to be read: their media type, and the profiles that they keep to."""

    media_type: MediaType
    conforms_to: frozenset[DataUri] = frozenset()


def checked_uri(value: str, refusal: type[InvalidError]) -> str:
    """An absolute URI that carries no credentials; it is never shown in a refusal, since it may."""
    uri = value.strip()
    if len(uri) > LONGEST_URI or not re.fullmatch(URI, uri):
        raise refusal(
            f"Give an absolute URI of up to {LONGEST_URI} characters, for example https://store.example/scan.h5.",
            most=LONGEST_URI,
        )
    scheme = uri.partition(":")[0].lower()
    if scheme in RUN_BY_BROWSERS:
        raise refusal(f"Data are not found at a {scheme} address; give one of a store.", scheme=scheme)
    if names_user(uri):
        raise refusal("Leave user name and password out of the URI: the store asks for them itself.")
    return uri


def names_user(uri: str) -> bool:
    """Whether an address has a user part, or none that can be told."""
    try:
        return "@" in urlsplit(uri).netloc
    except ValueError:
        return True


def checked_checksum(checksum: Checksum, refusal: type[InvalidError]) -> Checksum:
    return replace(checksum, value=text.code(checksum.value, SHA256, refusal, "checksum"))


def checked_encoding(encoding: Encoding, refusal: type[InvalidError]) -> Encoding:
    media_type = text.trimmed(encoding.media_type, 200, refusal, "media type")
    if not re.fullmatch(MEDIA_TYPE, media_type):
        raise refusal("Give the media type as type/subtype, for example application/x-hdf5.")
    if len(encoding.conforms_to) > MOST_PROFILES:
        raise refusal(f"An encoding conforms to at most {MOST_PROFILES} profiles.", most=MOST_PROFILES)
    return Encoding(
        media_type=media_type,
        conforms_to=frozenset(checked_uri(each, refusal) for each in encoding.conforms_to),
    )
