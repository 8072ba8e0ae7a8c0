"""Secrets in the environment, in files and in Vault: what is read, and what is not."""

import asyncio
import base64
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from beamwright.adapters.secrets.env import EnvironmentSecrets
from beamwright.adapters.secrets.file import FileSecrets
from beamwright.adapters.secrets.memory import MemorySecrets, public_key
from beamwright.adapters.secrets.registry import build_secrets
from beamwright.adapters.secrets.signer import StoredKeySigner, private_key
from beamwright.adapters.secrets.vault import VaultAccount, VaultSecrets
from beamwright.kernel.secret_store import (
    SecretStore,
    SecretStoreUnavailableError,
    UnusableSecretError,
)
from beamwright.kernel.signing import verifies


def read(store: SecretStore, secret_ref: str) -> bytes:
    return asyncio.run(store.read(secret_ref))  # type: ignore[arg-type]


def refused(store: SecretStore, secret_ref: str) -> str:
    with pytest.raises(SecretStoreUnavailableError) as refusal:
        read(store, secret_ref)
    return f"{refusal.value.detail} {refusal.value.context}"


# --- env ---

ENVIRONMENT = {"BEAMWRIGHT_SECRET_HOME": "hush", "BEAMWRIGHT_SECRET_BLANK": "", "DATABASE_URL": "postgres://"}


def test_a_variable_with_the_prefix_is_read() -> None:
    assert (
        read(EnvironmentSecrets(ENVIRONMENT, "BEAMWRIGHT_SECRET_"), "env:BEAMWRIGHT_SECRET_HOME") == b"hush"
    )


@pytest.mark.parametrize("name", ["BEAMWRIGHT_SECRET_AWAY", "BEAMWRIGHT_SECRET_BLANK", "DATABASE_URL"])
def test_no_other_variable_is_read_or_told(name: str) -> None:
    assert name not in refused(EnvironmentSecrets(ENVIRONMENT, "BEAMWRIGHT_SECRET_"), f"env:{name}")


# --- file ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    secrets = tmp_path / "secrets"
    (secrets / "home").mkdir(parents=True)
    written(secrets / "home" / "key", b"hush")
    written(tmp_path / "outside", b"other")
    return secrets


def written(path: Path, content: bytes, mode: int = 0o600) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def test_a_file_is_read_by_its_place_in_the_folder_or_in_full(folder: Path) -> None:
    store = FileSecrets(folder)
    assert read(store, "file:home/key") == read(store, f"file:{folder}/home/key") == b"hush"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o700, 0o620])
def test_a_file_that_is_not_private_is_no_secret(folder: Path, mode: int) -> None:
    (folder / "home" / "key").chmod(mode)
    assert "0600" in refused(FileSecrets(folder), "file:home/key")


def test_a_file_that_only_we_can_read_is_one(folder: Path) -> None:
    (folder / "home" / "key").chmod(0o400)
    assert read(FileSecrets(folder), "file:home/key") == b"hush"


@pytest.mark.parametrize("path", ["../outside", "home/../../outside", "home", "absent", "x" * 400])
def test_nothing_else_is_read(folder: Path, path: str) -> None:
    assert "outside" not in refused(FileSecrets(folder), f"file:{path}")


def test_an_absolute_path_does_not_lead_out(folder: Path) -> None:
    assert "SECRETS_FOLDER" in refused(FileSecrets(folder), f"file:{folder.parent}/outside")


def test_a_link_does_not_lead_out(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside")
    assert "SECRETS_FOLDER" in refused(FileSecrets(folder), "file:link")


def test_a_link_within_the_folder_leads_on(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "home" / "key")
    assert read(FileSecrets(folder), "file:link") == b"hush"


def test_a_pipe_does_not_hang_the_service(folder: Path) -> None:
    os.mkfifo(folder / "pipe", 0o600)
    refused(FileSecrets(folder), "file:pipe")


# --- vault ---


class Vault(BaseHTTPRequestHandler):
    """Answers like the key-value engine, version 2."""

    answers: dict[str, tuple[int, bytes]]
    asked: list[tuple[str, str | None, str | None]]

    def do_GET(self) -> None:
        headers = self.headers
        self.asked.append((self.path, headers.get("x-vault-token"), headers.get("x-vault-namespace")))
        status, body = self.answers.get(self.path, (404, b'{"errors":[]}'))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status == 307:
            self.send_header("location", "/v1/secret/data/home")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return None


def version(**fields: str) -> bytes:
    return json.dumps({"request_id": "r", "data": {"data": fields, "metadata": {"version": 2}}}).encode()


@pytest.fixture
def vault() -> Iterator[type[Vault]]:
    handler = type("Handler", (Vault,), {"answers": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


async def fetched(vault: Any, secret_ref: str, **account: str) -> bytes:
    store = VaultSecrets(VaultAccount(url=vault.url, token="t", **account))
    try:
        return await store.read(secret_ref)
    finally:
        await store.aclose()


def told(vault: Any, secret_ref: str) -> str:
    with pytest.raises(SecretStoreUnavailableError) as refusal:
        asyncio.run(fetched(vault, secret_ref))
    return f"{refusal.value.detail} {refusal.value.context}"


def test_vault_is_asked_with_its_token(vault: type[Vault]) -> None:
    vault.answers["/v1/secret/data/home/signing"] = 200, version(value="hush")
    assert asyncio.run(fetched(vault, "vault:home/signing")) == b"hush"
    assert vault.asked == [("/v1/secret/data/home/signing", "t", None)]


def test_a_field_mount_and_namespace_can_be_named(vault: type[Vault]) -> None:
    vault.answers["/v1/kv/data/home"] = 200, version(key="hush")
    assert asyncio.run(fetched(vault, "vault:home#key", mount="/kv/", namespace="ns")) == b"hush"
    assert vault.asked == [("/v1/kv/data/home", "t", "ns")]


@pytest.mark.parametrize(
    "answer",
    [
        (403, b'{"errors":["permission denied"]}'),
        (503, b'{"errors":["Vault is sealed"]}'),
        (404, version(value="hush")),
        (202, version(value="hush")),
        (307, b""),
        (200, b"hush"),
        (200, b'{"data":{"data":{"value":7}}}'),
        (200, b'{"data":{"data":null}}'),
        (200, version(other="hush")),
        (200, version(value="")),
        (200, version(value="hush" * (1 << 16))),
    ],
)
def test_any_other_answer_is_an_outage_that_tells_nothing(
    vault: type[Vault], answer: tuple[int, bytes]
) -> None:
    vault.answers["/v1/secret/data/hidden"] = answer
    said = told(vault, "vault:hidden")
    assert "hush" not in said and "hidden" not in said


@pytest.mark.parametrize("path", ["../sys/seal", "a/../../b", "a//b", "./a", ""])
def test_a_path_stays_below_its_mount(vault: type[Vault], path: str) -> None:
    told(vault, f"vault:{path}")
    assert vault.asked == []


def test_a_path_cannot_smuggle_a_query(vault: type[Vault]) -> None:
    told(vault, "vault:a?version=1")
    assert vault.asked[0][0] == "/v1/secret/data/a%3Fversion%3D1"


def test_a_vault_that_is_away_is_an_outage() -> None:
    async def away() -> None:
        store = VaultSecrets(VaultAccount(url="http://127.0.0.1:1", token="t"))
        try:
            await store.read("vault:home")
        finally:
            await store.aclose()

    with pytest.raises(SecretStoreUnavailableError):
        asyncio.run(away())


# --- the choice ---


def sources(folder: Path) -> Any:
    return build_secrets("sources", environment_prefix="X_", folder=folder, vault=VaultAccount())


def test_each_reference_is_read_where_its_scheme_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_KEY", "hush")
    assert read(sources(folder), "env:X_KEY") == read(sources(folder), "file:home/key") == b"hush"
    assert "VAULT_ADDR" in refused(sources(folder), "vault:home")


def test_an_unknown_store_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError):
        build_secrets("sources2", environment_prefix="X_", folder=folder, vault=VaultAccount())


# --- signing ---

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "secret",
    [
        PEM,
        b"\n" + PEM + b"\n",
        base64.b64encode(bytes(range(32))) + b"\n",
        base64.urlsafe_b64encode(bytes(range(32))).rstrip(b"="),
    ],
)
def test_a_private_key_is_pem_or_base64(secret: bytes) -> None:
    assert private_key(secret).private_bytes_raw() == bytes(range(32))


@pytest.mark.parametrize(
    "secret",
    [
        b"",
        b"hush",
        b"-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----",
        base64.b64encode(bytes(31)),
        base64.b64encode(bytes(64)),
        generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        b"\xff" * 43,
    ],
)
def test_what_is_no_key_signs_nothing_and_is_not_told(secret: bytes) -> None:
    with pytest.raises(UnusableSecretError) as refusal:
        private_key(secret)
    assert "hush" not in refusal.value.detail and refusal.value.__cause__ is None


def test_the_signer_signs_with_the_key_that_the_store_holds() -> None:
    store = MemorySecrets()
    store.kept["env:A"] = PEM
    assert asyncio.run(StoredKeySigner(store).sign("env:A", b"x")) == KEY.sign(b"x")


def test_in_memory_each_reference_has_its_own_key() -> None:
    signature = asyncio.run(StoredKeySigner(MemorySecrets()).sign("env:A", b"x"))
    assert verifies(public_key("env:A"), signature, b"x")
    assert not verifies(public_key("env:B"), signature, b"x")


def test_a_store_that_was_taken_away_signs_nothing() -> None:
    store = MemorySecrets()
    store.reachable = False
    with pytest.raises(SecretStoreUnavailableError):
        asyncio.run(StoredKeySigner(store).sign("env:A", b"x"))
