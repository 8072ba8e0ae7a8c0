"""OpenAPI 3.1 read off the registry: what REST serves is what this says."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from beamwright import __version__
from beamwright.kernel.operation import Operation, snake
from beamwright.kernel.problem import Problem
from beamwright.kernel.registry import Registry

REF = "#/components/schemas/{name}"

COMMAND_HEADERS = [
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Repeat a call safely: the first answer is given again for 24 hours.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"},
    },
    {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "The ETag that you read; refused with 409 when the object has moved on.",
        "schema": {"type": "string", "pattern": '^"[0-9]{1,9}"$'},
    },
]

BYTES = {"schema": {"type": "string", "format": "binary"}}
OBJECT = {"schema": {"type": "object"}}

REFUSALS = {
    400: "Malformed, or a value that the rules refuse",
    401: "No valid bearer token",
    403: "Not allowed",
    404: "No such object within your reach",
    408: "Body too slow",
    409: "The current state refuses it",
    413: "Body too large",
    422: "Wrong shape",
    431: "Address and headers too large",
    503: "A part that the service depends on is away",
}


def openapi(registry: Registry) -> dict[str, Any]:
    """The whole description."""
    operations = sorted(registry.operations.values(), key=lambda op: (op.path, op.method))
    types = [op.request for op in operations] + [op.response for op in operations] + [Problem]
    schemas, components = steady(msgspec.json.schema_components(types, ref_template=REF))
    answers, problem = schemas[len(operations) : -1], schemas[-1]
    paths: dict[str, dict[str, Any]] = {}
    for operation, answer in zip(operations, answers, strict=True):
        shape = components[operation.request.__name__]
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, shape, answer)
    for operation in operations:
        # A request is spread over path, query and body; the whole is of no use to a client.
        components.pop(operation.request.__name__, None)
    responses = {
        f"Problem{status}": {
            "description": text,
            "content": {"application/problem+json": {"schema": problem}},
        }
        for status, text in REFUSALS.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Beamwright",
            "version": __version__,
            "summary": "Operations control for experiment facilities",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": context} for context in registry.contexts],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": responses,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(operation: Operation, shape: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = shape["properties"]
    required: list[str] = shape.get("required", [])
    located = {
        name: "path" if name in operation.path_fields else "query"
        for name in properties
        if name in operation.path_fields or operation.in_address
    }
    parameters = [
        {"name": name, "in": place, "required": name in required, "schema": _parameter(properties[name])}
        for name, place in located.items()
    ]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.context],
        "parameters": parameters if operation.reads else parameters + COMMAND_HEADERS,
        "responses": _responses(operation, answer),
    }
    if not operation.in_address:
        body = _body(properties, required, located)
        content = {"application/json": {"schema": body}} | {
            media_type: BYTES for media_type in operation.bodies
        }
        described["requestBody"] = {"required": bool(body["required"]), "content": content}
    if operation.bodies:
        described["parameters"] += _beside_bytes(operation, properties, located)
    return described


def _beside_bytes(
    operation: Operation, properties: dict[str, Any], located: dict[str, str]
) -> list[dict[str, Any]]:
    """The fields that travel in the address when the body is not JSON."""
    when = f"Only with a body of {' or '.join(operation.bodies)}."
    return [
        {"name": name, "in": "query", "required": False, "description": when, "schema": _parameter(schema)}
        for name, schema in properties.items()
        if name not in located and name not in operation.bodies.values()
    ]


def _body(properties: dict[str, Any], required: list[str], located: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: schema for name, schema in properties.items() if name not in located},
        "required": [name for name in required if name not in located],
        "additionalProperties": False,
    }


def _parameter(schema: dict[str, Any]) -> dict[str, Any]:
    """An absent parameter says null; in a query string there is no other way to say it."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return choices[0]
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}


def _responses(operation: Operation, answer: dict[str, Any]) -> dict[str, Any]:
    headers = {"X-Correlation-Id": {"schema": {"type": "string"}}}
    if not operation.reads or operation.name == f"get_{snake(operation.aggregate)}":
        headers["ETag"] = {"schema": {"type": "string"}}
    if operation.creates or operation.tracks:
        headers["Location"] = {"schema": {"type": "string"}}
    content = {each: OBJECT if each.endswith("json") else BYTES for each in operation.media_types}
    success = {
        "description": "Done",
        "headers": headers,
        "content": content or {"application/json": {"schema": answer}},
    }
    ended = {"200": success | {"description": "Done, and ended within `wait`"}} if operation.tracks else {}
    return {
        str(operation.success): success,
        **ended,
        **{str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in REFUSALS},
    }


def steady(node: Any) -> Any:
    """The schema with the defaults of sets sorted: they come in an order that differs between processes."""
    if isinstance(node, list | tuple):
        return [steady(each) for each in cast(Sequence[Any], node)]
    if not isinstance(node, dict):
        return node
    settled = {key: steady(value) for key, value in cast(dict[str, Any], node).items()}
    if settled.get("uniqueItems") and isinstance(settled.get("default"), list):
        settled["default"] = sorted(settled["default"])
    return settled
