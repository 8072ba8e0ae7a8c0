"""The built-in issuer: its key file, its tokens, and what it costs to import."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from base64 import urlsafe_b64decode
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from beamwright.adapters.tokens.builtin import BuiltInIssuer, IssuerKeyError
from beamwright.kernel.tokens import LOCAL_ISSUER, VerifiedToken
from tests.adapters.tokens.provider import NOW, Clock, refused

HOUR = timedelta(hours=1)


def mint(issuer: BuiltInIssuer, **changes: Any) -> str:
    usual: dict[str, Any] = {
        "subject": "administrator",
        "audiences": ["a", "b"],
        "lifetime": HOUR,
        "now": NOW,
    }
    return issuer.mint(**(usual | changes))


def verify(issuer: BuiltInIssuer, token: str, clock: Clock | None = None) -> VerifiedToken:
    return asyncio.run(issuer.verifier(clock or Clock()).verify(token))


def kid(issuer: BuiltInIssuer) -> str:
    return jwt.get_unverified_header(mint(issuer))["kid"]


def test_a_minted_token_is_verified_like_any_other(tmp_path: Path) -> None:
    issuer = BuiltInIssuer(tmp_path)
    assert verify(issuer, mint(issuer, scopes=["beamwright:*", "x"])) == VerifiedToken(
        issuer=LOCAL_ISSUER,
        subject="administrator",
        audiences=frozenset({"a", "b"}),
        scopes=frozenset({"beamwright:*", "x"}),
        expires_at=NOW + HOUR,
        client_id="beamwright-cli",
        kept_for=timedelta(seconds=30),
    )


def test_a_minted_token_expires(tmp_path: Path) -> None:
    issuer, clock = BuiltInIssuer(tmp_path), Clock()
    clock.advance(hours=1, minutes=1)
    with refused("expired"):
        verify(issuer, mint(issuer), clock)


def test_a_token_is_minted_for_now_unless_told(tmp_path: Path) -> None:
    claims = jwt.decode(BuiltInIssuer(tmp_path).mint("a", ["b"], HOUR), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] in (3599, 3600, 3601)


def test_no_two_tokens_are_equal(tmp_path: Path) -> None:
    issuer = BuiltInIssuer(tmp_path)
    assert mint(issuer) != mint(issuer)


def test_the_header_names_the_type_and_the_thumbprint(tmp_path: Path) -> None:
    header = jwt.get_unverified_header(mint(BuiltInIssuer(tmp_path)))
    assert (header["typ"], header["alg"]) == ("at+jwt", "EdDSA")
    assert len(urlsafe_b64decode(header["kid"] + "=")) == 32


def test_the_thumbprint_is_that_of_rfc_8037(tmp_path: Path) -> None:
    octets = urlsafe_b64decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
    key = Ed25519PrivateKey.from_private_bytes(octets)
    write_key(tmp_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert kid(BuiltInIssuer(tmp_path)) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def write_key(directory: Path, pem: bytes, mode: int = 0o600) -> Path:
    path = directory / "issuer.key"
    path.write_bytes(pem)
    path.chmod(mode)
    return path


def test_the_key_is_private_and_survives_a_restart(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    token = mint(BuiltInIssuer(directory))
    path = directory / "issuer.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    load_pem_private_key(path.read_bytes(), password=None)
    assert [file.name for file in directory.iterdir()] == ["issuer.key"]
    assert verify(BuiltInIssuer(directory), token).subject == "administrator"


def test_the_key_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        BuiltInIssuer(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "issuer.key").stat().st_mode) == 0o600


def test_installations_do_not_trust_each_other(tmp_path: Path) -> None:
    token = mint(BuiltInIssuer(tmp_path / "one"))
    with refused("no key"):
        verify(BuiltInIssuer(tmp_path / "two"), token)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660, 0o601])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    BuiltInIssuer(tmp_path)
    path = tmp_path / "issuer.key"
    path.chmod(mode)
    with pytest.raises(IssuerKeyError, match="chmod 600"):
        BuiltInIssuer(tmp_path)


def rsa_pem(*, encrypted: bool) -> bytes:
    encryption = BestAvailableEncryption(b"x") if encrypted else NoEncryption()
    return generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize("pem", [b"", b"garbage", rsa_pem(encrypted=False), rsa_pem(encrypted=True)])
def test_a_key_file_with_no_such_key_is_refused(tmp_path: Path, pem: bytes) -> None:
    write_key(tmp_path, pem)
    with pytest.raises(IssuerKeyError, match="delete it"):
        BuiltInIssuer(tmp_path)


def test_threads_that_race_agree_on_one_key(tmp_path: Path) -> None:
    start = Barrier(16)

    def race(_: int) -> str:
        start.wait()
        return kid(BuiltInIssuer(tmp_path))

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(race, range(16)))) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["issuer.key"]


def test_processes_that_race_agree_on_one_key(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from beamwright.adapters.tokens.builtin import BuiltInIssuer;"
        "sys.stdin.read(); print(BuiltInIssuer(pathlib.Path(sys.argv[1]))._kid)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    outputs = [racer.communicate(timeout=30)[0] for racer in racers]
    assert len(set(outputs)) == 1
    assert outputs[0]


def test_importing_the_issuer_does_not_import_an_http_client() -> None:
    program = "import sys, json, beamwright.adapters.tokens.builtin; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(subprocess.check_output([sys.executable, "-c", program]))
    assert not {"httpx", "httpcore", "rich", "structlog"} & set(modules)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": ""},
        {"subject": "a" * 256},
        {"subject": "a\n"},
        {"audiences": []},
        {"audiences": [""]},
        {"audiences": "urn:beamwright:http"},
        {"lifetime": timedelta(0)},
        {"lifetime": -HOUR},
    ],
)
def test_a_token_that_would_be_refused_is_not_minted(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sub|aud|lifetime"):
        mint(BuiltInIssuer(tmp_path), **changes)
