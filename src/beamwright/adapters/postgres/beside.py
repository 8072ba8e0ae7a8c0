"""Writes beside the log (personal data, contacts), in the transaction of the append that they belong to."""

from collections.abc import Sequence

import asyncpg

from beamwright.kernel.erasable import ErasedText, WrittenText
from beamwright.kernel.event import Beside
from beamwright.kernel.observing import SourceForgotten, SourceHeard
from beamwright.kernel.profiles import (
    ErasedIdentity,
    ErasedProfile,
    Identity,
    LoginTakenError,
    Profile,
)
from beamwright.kernel.value import encode

from .contacts import write_contact
from .driver import Connection
from .texts import write_text

PUT_PROFILE = """INSERT INTO actor_profile
    (actor_id, name, email, phone, affiliation, external_refs, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (actor_id) DO UPDATE SET name = excluded.name, email = excluded.email, phone = excluded.phone,
    affiliation = excluded.affiliation, external_refs = excluded.external_refs, updated_at = excluded.updated_at"""

# Blanked before it is deleted, so that no old row version with content outlives the transaction in the heap.
FORGET = (
    "UPDATE actor_profile SET name = '', email = NULL, phone = NULL, affiliation = NULL, external_refs = '{}', "
    "created_at = 'epoch', updated_at = 'epoch' WHERE actor_id = $1",
    "DELETE FROM actor_profile WHERE actor_id = $1",
    "DELETE FROM actor_identity WHERE actor_id = $1",
)


async def write_beside(connection: Connection, records: Sequence[Beside]) -> None:
    for record in records:
        match record:
            case Profile():
                await connection.execute(
                    PUT_PROFILE,
                    record.actor_id,
                    record.name,
                    record.email,
                    record.phone,
                    record.affiliation,
                    encode(record.external_refs).decode(),
                    record.created_at,
                    record.updated_at,
                )
            case Identity():
                await _link(connection, record)
            case ErasedIdentity():
                await connection.execute(
                    "DELETE FROM actor_identity WHERE identity_id = $1", record.identity_id
                )
            case ErasedProfile():
                for statement in FORGET:
                    await connection.execute(statement, record.actor_id)
            case SourceHeard() | SourceForgotten():
                await write_contact(connection, record)
            case WrittenText() | ErasedText():
                await write_text(connection, record)
            case _:
                raise TypeError(f"no table for {type(record).__name__}")


async def _link(connection: Connection, identity: Identity) -> None:
    try:
        await connection.execute(
            "INSERT INTO actor_identity (identity_id, actor_id, issuer, subject, linked_at) "
            "VALUES ($1, $2, $3, $4, $5)",
            identity.identity_id,
            identity.actor_id,
            identity.issuer,
            identity.subject,
            identity.linked_at,
        )
    except asyncpg.UniqueViolationError as error:
        raise LoginTakenError from error
