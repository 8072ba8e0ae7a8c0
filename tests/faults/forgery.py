"""Tokens that must open nothing: forged, altered, out of place, out of time, or not tokens at all."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.adapters.tokens.provider import SigningKey, base64url

type Forgery = Callable[["Mint"], str]


class Mint:
    """What an attacker may have: a good token to change, the public key, keys of his own, and a careless issuer."""

    def __init__(self, issuer: str, subject: str, key: SigningKey, elsewhere: str, other_issuer: str) -> None:
        self.issuer = issuer
        self.subject = subject
        self.key = key
        # An address of the attacker's, which nobody may ever ask.
        self.elsewhere = elsewhere
        self.other_issuer = other_issuer
        self.own = SigningKey(key.algorithm, key.kid)

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        whole = {
            "iss": self.issuer,
            "sub": self.subject,
            "aud": ["urn:beamwright:http", "urn:beamwright:mcp"],
            "client_id": "test",
            "iat": now,
            "exp": now + 600,
            "jti": uuid4().hex,
        } | changes
        return {name: value for name, value in whole.items() if value is not ...}

    def good(self, **changes: Any) -> str:
        """Signed by the issuer's own key, whatever it says."""
        return self.key.sign(self.claims(**changes))

    def headed(self, **header: Any) -> str:
        return self.key.sign(self.claims(), **header)

    def stating(self, name: str, literal: str) -> str:
        """With a claim written as no Python value is."""
        text = json.dumps(self.claims(**{name: "here"})).replace('"here"', literal)
        return self.key.sign(text.encode())

    def twice(self, name: str, last: Any) -> str:
        """With a claim that is right, and then again and wrong."""
        text = json.dumps(self.claims())[:-1] + f', "{name}": {json.dumps(last)}}}'
        return self.key.sign(text.encode())

    def parts(self) -> list[str]:
        return self.good().split(".")

    def unsigned(self, algorithm: str, signature: str = "") -> str:
        head = json.dumps({"typ": "at+jwt", "alg": algorithm, "kid": self.key.kid}).encode()
        return f"{base64url(head)}.{base64url(json.dumps(self.claims()).encode())}.{signature}"

    def shared(self, secret: bytes, algorithm: str = "HS256", kid: str | None = None) -> str:
        """Signed with a secret that is none."""
        digest = {"HS256": hashlib.sha256, "HS512": hashlib.sha512}[algorithm]
        unsigned = self.unsigned(algorithm)
        if kid is not None:
            head = json.dumps({"typ": "at+jwt", "alg": algorithm, "kid": kid}).encode()
            unsigned = f"{base64url(head)}.{unsigned.split('.')[1]}."
        signed = unsigned[:-1]
        return f"{signed}.{base64url(hmac.new(secret, signed.encode(), digest).digest())}"

    def public(self, encoding: Encoding) -> bytes:
        return self.key.private.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)

    def resigned(self, **header: Any) -> str:
        """Signed by a key of the attacker's, which the token brings along or names."""
        return self.own.sign(self.claims(), **header)

    def with_signature(self, signature: bytes) -> str:
        head, payload, _ = self.parts()
        return f"{head}.{payload}.{base64url(signature)}"

    def altered(self, **changes: Any) -> str:
        head, _, signature = self.parts()
        return f"{head}.{base64url(json.dumps(self.claims(**changes)).encode())}.{signature}"

    def raw(self, payload: bytes) -> str:
        return self.key.sign(payload)

    def headed_raw(self, header: bytes) -> str:
        return self.key.sign_raw(header, json.dumps(self.claims()).encode())


def _signatures() -> dict[str, Forgery]:
    sizes = {"empty": 0, "64 zeros": 64, "256 zeros": 256}
    forged: dict[str, Forgery] = {
        f"signature of {name}": (lambda mint, size=size: mint.with_signature(bytes(size)))
        for name, size in sizes.items()
    }
    for algorithm in ("none", "None", "NONE", "nOnE", "", "RS1", "ES256K", "dir", "HS256"):
        forged[f"algorithm {algorithm!r} unsigned"] = lambda mint, a=algorithm: mint.unsigned(a)
        forged[f"algorithm {algorithm!r}, old signature"] = lambda mint, a=algorithm: mint.unsigned(
            a, mint.parts()[2]
        )
    return forged | {
        "HS256 with the public PEM": lambda mint: mint.shared(mint.public(Encoding.PEM)),
        "HS256 with the PEM trimmed": lambda mint: mint.shared(mint.public(Encoding.PEM).strip()),
        "HS256 with the public DER": lambda mint: mint.shared(mint.public(Encoding.DER)),
        "HS256 with the published key": lambda mint: mint.shared(json.dumps(mint.key.jwk).encode()),
        "HS512 with the public PEM": lambda mint: mint.shared(mint.public(Encoding.PEM), "HS512"),
        "HS256 with nothing": lambda mint: mint.shared(b""),
        "HS256 with an empty file for a key": lambda mint: mint.shared(b"", kid="../../../../../dev/null"),
        "HS256 with a key out of a query": lambda mint: mint.shared(b"x", kid="' union select 'x' --"),
        "another key of the same name": lambda mint: mint.resigned(),
        "a key that it brings along": lambda mint: mint.resigned(jwk=mint.own.jwk, kid=None),
        "a key that it brings along, named": lambda mint: mint.resigned(jwk=mint.own.jwk, kid="mine"),
        "a key set elsewhere": lambda mint: mint.resigned(jku=mint.elsewhere, kid="mine"),
        "a certificate elsewhere": lambda mint: mint.resigned(x5u=mint.elsewhere, kid="mine"),
        "a certificate of its own": lambda mint: mint.resigned(x5c=["MAo="], x5t="x", kid="mine"),
        "an address for a key name": lambda mint: mint.resigned(kid=mint.elsewhere),
        "another subject": lambda mint: mint.altered(sub="01900000-0000-7000-8000-000000000001"),
        "a longer life": lambda mint: mint.altered(exp=int(time.time()) + 10**6),
        "half a signature": lambda mint: mint.good()[:-40],
        "more signature": lambda mint: mint.good() + "AAAA",
        "the signature of another token": lambda mint: ".".join([*mint.parts()[:2], mint.parts()[2]]),
        "first bit of the signature turned": lambda mint: _turned(mint.good()),
    }


def _turned(token: str) -> str:
    head, payload, signature = token.split(".")
    return f"{head}.{payload}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"


def _headers() -> dict[str, Forgery]:
    forged: dict[str, Forgery] = {}
    for typ in ("JWT", "at", "id+jwt", "logout+jwt", "dpop+jwt", "", None, 7, ["at+jwt"], {"at+jwt": 1}):
        forged[f"type {typ!r}"] = lambda mint, t=typ: mint.headed(typ=t)
    for crit in ([], ["exp"], ["b64"], ["x"], None, "exp", {"exp": 1}, 7):
        text = json.dumps(crit)
        forged[f"critical {text}"] = lambda mint, c=text: mint.headed_raw(
            json.dumps({"typ": "at+jwt", "alg": mint.key.algorithm, "kid": mint.key.kid}).encode()[:-1]
            + f', "crit": {c}}}'.encode()
        )
    for kid in (7, [], {}, "", "unknown", "\x00", "a" * 4000, "\u202e", "../../etc/passwd"):
        forged[f"key name {str(kid)[:20]!r}"] = lambda mint, k=kid: mint.headed(kid=k)
    garbage = {
        "nothing": b"",
        "null": b"null",
        "a list": b"[]",
        "a text": b'"x"',
        "no UTF-8": b"\xff\xfe",
        "a byte order mark": b"\xef\xbb\xbf{}",
        "depth": b"[" * 5000,
        "deep members": b'{"alg":' * 700,
        "no algorithm": b'{"typ":"at+jwt"}',
        "an algorithm of another kind": b'{"typ":"at+jwt","alg":["EdDSA"]}',
        "a huge number": b'{"typ":"at+jwt","alg":1' + b"0" * 4000 + b"}",
    }
    for name, header in garbage.items():
        forged[f"header of {name}"] = lambda mint, h=header: mint.headed_raw(h)
    return forged | {
        "unencoded payload": lambda mint: mint.headed(b64=False, crit=["b64"]),
        "two algorithms, none last": lambda mint: mint.headed_raw(
            f'{{"typ":"at+jwt","kid":"{mint.key.kid}","alg":"{mint.key.algorithm}","alg":"none"}}'.encode()
        ),
    }


# What no time is; one that is only too early or too late stands beside its claim.
NO_TIMES = (
    "1e400",
    "-1e400",
    "9" * 400,
    "1e30",
    "-1",
    "NaN",
    "Infinity",
    '"2099-01-01"',
    "true",
    "null",
    "[1]",
    "{}",
)


def _claims() -> dict[str, Forgery]:
    forged: dict[str, Forgery] = {}
    for name, wrong in {"exp": -3600, "nbf": 3600, "iat": 3600}.items():
        forged[f"{name} {wrong}"] = lambda mint, n=name, w=wrong: mint.good(**{n: int(time.time()) + w})
        for literal in NO_TIMES:
            if (name, literal) != ("nbf", "null"):
                forged[f"{name} {literal[:12]}"] = lambda mint, n=name, t=literal: mint.stating(n, t)
    for name in ("iss", "sub", "aud", "client_id", "exp", "iat"):
        forged[f"no {name}"] = lambda mint, n=name: mint.good(**{n: ...})
    for sub in ("", [], ["x"], {}, 7, None, True, "a\x00b", "a\r\nb", "\u202ea", "a" * 256, "a" * 4000):
        forged[f"subject {str(sub)[:12]!r}"] = lambda mint, s=sub: mint.good(sub=s)
    forged["subject in a list"] = lambda mint: mint.good(sub=[mint.subject])
    for aud in (
        "",
        [],
        [""],
        7,
        {},
        None,
        [7],
        "urn:elsewhere",
        "urn:beamwright:http/",
        "URN:BEAMWRIGHT:HTTP",
        "*",
    ):
        forged[f"audience {aud!r}"] = lambda mint, a=aud: mint.good(aud=a)
    for iss in ("", [], 7, None, "https://evil.example", "file:///etc/passwd", "a" * 4000):
        forged[f"issuer {str(iss)[:20]!r}"] = lambda mint, i=iss: mint.good(iss=i)
    return forged | {
        "the other issuer's name": lambda mint: mint.good(iss=mint.other_issuer),
        "the issuer's name in a list": lambda mint: mint.good(iss=[mint.issuer]),
        "the issuer's name and a slash": lambda mint: mint.good(iss=mint.issuer + "/"),
        "the issuer's name in capitals": lambda mint: mint.good(iss=mint.issuer.upper()),
        "expiry twice": lambda mint: mint.twice("exp", 1),
        "audience twice": lambda mint: mint.twice("aud", "urn:elsewhere"),
        "issuer twice": lambda mint: mint.twice("iss", "https://evil.example"),
        "subject twice": lambda mint: mint.twice("sub", ["x"]),
        "scope of another kind": lambda mint: mint.good(scope=["*"]),
    }


def _forms() -> dict[str, Forgery]:
    garbage = {
        "nothing": b"",
        "a list": b"[]",
        "depth": b"[" * 5000,
        "deep members": b'{"iss":' * 700,
        "no UTF-8": b"\xff",
        "NUL": b"\x00",
        "a NUL in a name": b'{"iss\\u0000":"x"}',
        "a lone surrogate": b'{"iss":"\\ud800"}',
    }
    forged: dict[str, Forgery] = {
        f"payload of {name}": (lambda mint, p=payload: mint.raw(p)) for name, payload in garbage.items()
    }
    return forged | {
        "a token in a token": lambda mint: mint.raw(mint.good().encode()),
        "a token in a token, said so": lambda mint: mint.key.sign(mint.good().encode(), cty="JWT"),
        "compressed": lambda mint: mint.key.sign(b"\x78\x9c\x03\x00\x00\x00\x00\x01", zip="DEF"),
        "encrypted, five parts": lambda mint: ".".join(["eyJhbGciOiJkaXIifQ", "", "AAAA", "AAAA", "AAAA"]),
        "as a JSON object": lambda mint: json.dumps(
            dict(zip(("protected", "payload", "signature"), mint.parts(), strict=True))
        ),
        "two parts": lambda mint: ".".join(mint.parts()[:2]),
        "four parts": lambda mint: mint.good() + ".x",
        "only dots": lambda _: "..",
        "a thousand dots": lambda _: "." * 1000,
        "padded": lambda mint: mint.good() + "==",
        "a space within": lambda mint: mint.good().replace(".", ". ", 1),
        "a tab within": lambda mint: mint.good().replace(".", ".\t", 1),
        "a comma and another": lambda mint: f"{mint.good()}, {mint.good()}",
        "another script": lambda mint: mint.good() + "\u00e9",
        "high bytes": lambda _: "\xff\xfe\xfd",
        "percent signs": lambda mint: mint.good().replace(".", "%2e"),
        "nine thousand characters": lambda mint: mint.good(filler="a" * 7000),
        "fifty thousand characters": lambda mint: mint.good(filler="a" * 37_000),
        "opaque": lambda _: uuid4().hex,
    }


FORGERIES: dict[str, Forgery] = _signatures() | _headers() | _claims() | _forms()
