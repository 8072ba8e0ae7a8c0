"""A small identity provider on a loopback port, with keys to sign and switches to misbehave."""

import asyncio
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from beamwright.kernel.tokens import InvalidTokenError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ISSUER = "https://login.facility.example"
AUDIENCE = "urn:beamwright:http"


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> None:
        self.now += timedelta(**duration)


class SigningKey:
    """A private key of the provider, and its published half."""

    def __init__(self, algorithm: str, kid: str | None = None) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.private: Any
        if algorithm in ("RS256", "PS256"):
            self.private = rsa.generate_private_key(65537, 2048)
            self.jwk: dict[str, Any] = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        elif algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
            self.jwk = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()
            self.jwk = OKPAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        if kid is not None:
            self.jwk["kid"] = kid

    def sign(self, claims: Any, **header: Any) -> str:
        """A token with these claims; a header of None is left out."""
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        fields = {"typ": "at+jwt", "alg": self.algorithm, "kid": self.kid} | header
        present = {name: value for name, value in fields.items() if value is not None}
        return self.sign_raw(json.dumps(present).encode(), payload)

    def sign_raw(self, header: bytes, payload: bytes) -> str:
        signed = f"{base64url(header)}.{base64url(payload)}"
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return f"{signed}.{base64url(algorithm.sign(signed.encode(), self.private))}"


def claims(**changes: Any) -> dict[str, Any]:
    """Acceptable claims; a change to None removes the claim."""
    acceptable: dict[str, Any] = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": AUDIENCE,
        "client_id": "scan-client",
        "exp": NOW.timestamp() + 600,
        "iat": NOW.timestamp(),
        "scope": "beamwright:get_* openid",
    }
    return {name: value for name, value in (acceptable | changes).items() if value is not None}


def base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def key_set(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.jwk for key in keys]}).encode()


@contextmanager
def refused(reason: str = "") -> Generator[None]:
    """The token is refused, for this reason and by no other exception."""
    with pytest.raises(InvalidTokenError) as caught:
        yield
    assert reason in caught.value.reason


class Provider:
    """Serves `/keys` and `/introspect` until stopped; counts what it is asked."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = list(keys)
        self.tokens: dict[str, Any] = {}
        self.credentials: tuple[str, str] = ("beamwright", "s3cret")
        self.requests: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.status = 200
        self.body: bytes | None = None
        self.headers = ""
        self._arrived = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self.open.set()
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def asked(self, times: int) -> None:
        """Returns when that many requests have arrived, answered or not."""
        async with asyncio.timeout(5):
            while len(self.requests) < times:
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    @property
    def introspection_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/introspect"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        form = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
        path = head[0].split(" ")[1]
        self.requests.append(path)
        self._arrived.set()
        await self.open.wait()
        status, body = self.status, self.body
        if body is None and path == "/keys":
            body = key_set(*self.keys)
        elif body is None:
            status, body = self._introspect(headers.get("authorization", ""), form)
        writer.write(
            f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n{self.headers}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()

    def _introspect(self, authorization: str, form: str) -> tuple[int, bytes]:
        fields = {name: values[0] for name, values in parse_qs(form).items()}
        self.forms.append(fields)
        name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote_plus(name), unquote_plus(secret)) != self.credentials:
            return 401, b'{"error":"invalid_client"}'
        return self.status, json.dumps(self.tokens.get(fields["token"], {"active": False})).encode()


def against_provider(scenario: Callable[[Provider], Awaitable[None]], *keys: SigningKey) -> None:
    """Runs the scenario while the provider serves."""

    async def serve() -> None:
        async with Provider(*keys) as provider:
            await scenario(provider)

    asyncio.run(serve())


RSA_KEY = SigningKey("RS256", "rsa-1")
EC_KEY = SigningKey("ES256", "ec-1")
ED_KEY = SigningKey("EdDSA", "ed-1")
KEYS = (RSA_KEY, EC_KEY, ED_KEY)
