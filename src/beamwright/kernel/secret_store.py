"""Secrets: what refers to one, the seams that read it or sign with it, and keeping the reference to ourselves."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Protocol, TypeAliasType, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from .erasable import REDACTED
from .errors import InvalidError, UnavailableError

REFERENCE = r"^(env|file|vault):\S{1,500}$"

# Marked x-secret: shown as `<redacted>` in every view, history and feed, to everyone.
type SecretRef = Annotated[str, Meta(extra_json_schema={"x-secret": True})]
# The same in a request, where it has a form.
type GivenSecretRef = Annotated[str, Meta(extra_json_schema={"pattern": REFERENCE, "x-secret": True})]

# What is secret of a record: a field itself, or within one; `*` stands for every member of a map.
type Secrets = Mapping[str, "Secrets | None"]


class SecretStoreUnavailableError(UnavailableError):
    """The secret cannot be read where its reference says it is; nothing was recorded."""


class UnusableSecretError(SecretStoreUnavailableError):
    """The secret is no Ed25519 private key."""


class SecretStore(Protocol):
    """Where private keys and passwords are kept; read when they are needed, never stored."""

    async def read(self, secret_ref: str) -> bytes: ...


class Signer(Protocol):
    """Signs with a private key that stays on the other side of this seam."""

    async def sign(self, secret_ref: str, octets: bytes) -> bytes:
        """The Ed25519 signature, 64 octets."""
        ...


def checked_secret_ref(value: str, refusal: type[InvalidError]) -> str:
    """A reference to a secret; a refusal does not repeat it."""
    secret_ref = value.strip()
    if not re.fullmatch(REFERENCE, secret_ref):
        raise refusal("The secret reference must be env:, file: or vault: and 1 to 500 non-blank characters.")
    return secret_ref


def scheme(secret_ref: str) -> str:
    """All of a reference that may be shown."""
    return secret_ref.partition(":")[0]


@cache
def secrets_of(type_: Any) -> Secrets:
    """The secret places of a record, found by their mark."""
    if not hasattr(type_, "__struct_fields__"):
        return {}
    hints = get_type_hints(type_, include_extras=True)
    found = {field: _secret(hints[field]) for field in type_.__struct_fields__}
    return {field: within for field, within in found.items() if within != {}}


def redacted[T](value: T, secrets: Secrets) -> T:
    """`value`, a record or its decoded form, with `<redacted>` where it is secret."""
    return cast(T, _covered(value, secrets)) if secrets else value


def discreet(self: msgspec.Struct) -> str:
    """A `__repr__` for records with secrets: what ends in a log or a traceback tells none of them."""
    return msgspec.Struct.__repr__(redacted(self, secrets_of(type(self))))


def _secret(hint: Any) -> "Secrets | None":
    """None where the whole is secret; else what is within, possibly nothing."""
    if isinstance(hint, TypeAliasType):
        return _secret(hint.__value__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [meta.extra_json_schema or {} for meta in arguments[1:] if isinstance(meta, Meta)]
        return None if any(mark.get("x-secret") for mark in marks) else _secret(arguments[0])
    if origin is dict:
        within = _secret(arguments[1])
        return {} if within == {} else {"*": within}
    if not arguments:
        return secrets_of(hint)
    found: dict[str, Secrets | None] = {}
    for each in (_secret(argument) for argument in arguments):
        if each is None:
            return None
        found |= each
    return found


def _covered(value: Any, secrets: Secrets | None) -> Any:
    match value:
        case None:
            return None
        case list() | tuple():
            members = cast(list[Any] | tuple[Any, ...], value)
            return type(members)([_covered(each, secrets) for each in members])
        case _ if secrets is None:
            return REDACTED
        case dict():
            members = cast(dict[Any, Any], value)
            every = secrets.get("*", {})
            return {key: _covered(each, secrets.get(key, every)) for key, each in members.items()}
        case msgspec.Struct():
            changes = {
                field: _covered(getattr(value, field), within)
                for field, within in secrets.items()
                if field in value.__struct_fields__
            }
            return msgspec.structs.replace(value, **changes)
        case _:
            return value
