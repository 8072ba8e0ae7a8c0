"""Where data are, how they are read, and how they are verified: what is taken, and what is refused."""

import pytest

from beamwright.contexts.data.values import Encoding, checked_checksum, checked_encoding, checked_uri
from beamwright.kernel.compute import Checksum, ChecksumAlgorithm
from beamwright.kernel.errors import InvalidError

PROFILE = "https://manual.nexusformat.org/classes/applications/NXtomo.html"


class WrongError(InvalidError):
    """It is wrong."""


@pytest.mark.parametrize(
    "uri",
    [
        "https://store.example/a%20b.h5?version=2#/entry",
        "https://[::1]:8443/x",
        "s3://bucket/key@2",
        "globus://4f3e/scan.h5",
        "file:///data/scan.h5",
        "supply:///2026/scan.h5",
        "urn:uuid:0b1c",
        "x:" + "y" * 2046,
    ],
)
def test_an_absolute_uri_is_taken_as_written(uri: str) -> None:
    assert checked_uri(f" {uri} ", WrongError) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        " ",
        "scan.h5",
        "/data/scan.h5",
        "//store.example/scan.h5",
        "https:",
        "x:" + "y" * 2047,
        "https://store.example/a b",
        "https://store.example/ä",
        "https://store.example/%zz",
        "https://store.example/\nx",
        "https://store.example\\x",
        "https://ada@store.example/scan.h5",
        "https://ada:secret@store.example/scan.h5",
        "https://@store.example/scan.h5",
        "https://[::1/scan.h5",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "vbscript:x",
        "data:text/plain,x",
        "about:blank",
        "view-source:https://store.example/",
    ],
)
def test_another_address_is_refused(uri: str) -> None:
    with pytest.raises(WrongError):
        checked_uri(uri, WrongError)


def test_a_refusal_does_not_repeat_credentials() -> None:
    with pytest.raises(WrongError) as refused:
        checked_uri("https://ada:secret@store.example/", WrongError)
    assert "secret" not in f"{refused.value.detail} {refused.value.context}"


@pytest.mark.parametrize("value", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n0"])
def test_a_checksum_has_64_lowercase_digits(value: str) -> None:
    with pytest.raises(WrongError):
        checked_checksum(Checksum(algorithm=ChecksumAlgorithm.SHA256, value=value), WrongError)


def test_an_encoding_is_trimmed() -> None:
    given = Encoding(media_type=" application/vnd.hdf5+x ", conforms_to=frozenset({f" {PROFILE} "}))
    assert checked_encoding(given, WrongError) == Encoding(
        media_type="application/vnd.hdf5+x", conforms_to=frozenset({PROFILE})
    )


@pytest.mark.parametrize(
    ("media_type", "profiles"),
    [
        ("hdf5", []),
        ("application/", []),
        ("/x-hdf5", []),
        ("application/x-hdf5; version=2", []),
        ("a/" + "x" * 199, []),
        ("application/x-hdf5", ["NXtomo"]),
        ("application/x-hdf5", ["javascript:x"]),
        ("application/x-hdf5", [f"{PROFILE}#{n}" for n in range(17)]),
    ],
)
def test_a_malformed_encoding_is_refused(media_type: str, profiles: list[str]) -> None:
    with pytest.raises(WrongError):
        checked_encoding(Encoding(media_type=media_type, conforms_to=frozenset(profiles)), WrongError)
