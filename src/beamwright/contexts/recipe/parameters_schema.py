"""The parameters schema that a capability or a method declares, with every earlier one under its number."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import msgspec

from beamwright.kernel.declared_schema import NumberedSchema, Schema, checked_schema
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Time, Value, encode
from beamwright.kernel.versions import Counted


class Parametrised(Counted):
    """A state that may declare which parameters it takes; number 0 means that it does not."""

    id: UUID
    name: str
    parameters_schema: Schema | None = None
    parameters_schema_version: int = 0
    parameters_schemas: tuple[NumberedSchema, ...] = ()


def with_schema[S: Parametrised](state: S, schema: Schema | None, number: int, since: datetime) -> S:
    """The state with the schema that an event carries, kept under its number when it is a new one."""
    if schema is None or number == state.parameters_schema_version:
        return state
    numbered = NumberedSchema(schema_version=number, schema=schema, since=since)
    return msgspec.structs.replace(
        state,
        parameters_schema=schema,
        parameters_schema_version=number,
        parameters_schemas=(*state.parameters_schemas, numbered),
    )


def number_of(state: Parametrised, schema: Schema | None) -> int:
    """The number that `schema` has, or will have."""
    return state.parameters_schema_version + schema_differs(state.parameters_schema, schema)


def schema_differs(was: Schema | None, now: Schema | None) -> bool:
    """Whether two schemas differ as JSON, where true is not 1."""
    return encode(was) != encode(now)


def declared(schema: Schema | None, refusal: type[InvalidError]) -> Schema:
    """The schema that a command declares: a declared schema is replaced, never removed."""
    if schema is None:
        raise refusal(
            "A schema is replaced, never removed: declare {} for no constraint.", path="", keyword="type"
        )
    return checked_schema(schema, refusal)


def undeclared(schema: Schema | None, names: Iterable[str]) -> list[str]:
    """Those of `names` that are no parameter of `schema`; an open schema takes any name."""
    known = (schema or {}).get("properties", {})
    return [] if schema == {} else sorted(name for name in set(names) if name not in known)


class NumberedParametersSchema(Value):
    """A parameters schema, its number, and since when it holds."""

    parameters_schema_version: int
    parameters_schema: Schema
    since: Time


class ParametersSchemas(Value):
    """Every parameters schema that was ever declared, oldest first."""

    items: list[NumberedParametersSchema]


def every_schema(state: Parametrised) -> ParametersSchemas:
    return ParametersSchemas(
        items=[
            NumberedParametersSchema(
                parameters_schema_version=each.schema_version,
                parameters_schema=each.schema,
                since=each.since,
            )
            for each in state.parameters_schemas
        ]
    )
