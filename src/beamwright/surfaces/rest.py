"""REST: an HTTP request becomes a call of the operation at its address, and its outcome the answer."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from beamwright.contexts.trust.surface import SurfaceKind
from beamwright.kernel.download import Download
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import encode, replace
from beamwright.runtime.arrival import Arrival
from beamwright.runtime.call import Call, Outcome
from beamwright.runtime.service import Service
from beamwright.settings import Settings

from .door import (
    MalformedRequestError,
    check_no_nul,
    check_once,
    check_source,
    expected_version,
    idempotency_key,
    nested_too_deep,
)
from .exchange import JSON, PROBLEM, Exchange, query_fields

OPERATION = "beamwright.operation"
_object = msgspec.json.Decoder(dict[str, Any])


class Rest:
    """Turns HTTP requests into calls of the service, and its answers into responses."""

    def __init__(self, service: Service, arrival: Arrival, settings: Settings) -> None:
        self._service = service
        self._arrival = arrival
        self._settings = settings

    async def answer(self, exchange: Exchange, operation: Operation) -> None:
        note_operation(exchange, operation)
        try:
            call = await self.call(exchange)
            typed = await self._typed(exchange, operation)
            outcome = await self._service.call(typed, call)
        except Exception as error:  # noqa: BLE001 - a surface answers every failure
            await self.refuse(exchange, error)
            return
        if isinstance(outcome.body, Download):
            await self._send(exchange, outcome.body)
        else:
            await self._render(exchange, operation, outcome)

    async def call(self, exchange: Exchange) -> Call:
        """Who calls: decided before anything of the body is read."""
        check_once(exchange.scope["headers"])
        authorization = exchange.header(b"authorization")
        if authorization is None and self._settings.laptop:
            # Any page in the same browser can reach a laptop; a token would have to be stolen first.
            hosts, origins = exchange.header(b"host"), exchange.header(b"origin")
            listening = exchange.scope["server"]
            check_source(self._settings, listening, [hosts or ""], [origins] if origins else [])
        call = await self._arrival.call(
            authorization,
            SurfaceKind.HTTP,
            exchange.correlation,
            loopback=exchange.loopback,
        )
        key, version = exchange.header(b"idempotency-key"), exchange.header(b"if-match")
        if key is None and version is None:
            return call
        return replace(call, idempotency_key=idempotency_key(key), expected_version=expected_version(version))

    async def _typed(self, exchange: Exchange, operation: Operation) -> Any:
        """Body, query and path joined; a name given in two places is refused."""
        body_field = operation.bodies.get(exchange.media_type) if operation.body_types else None
        in_address = operation.in_address or body_field is not None
        if in_address:
            given = query_fields(exchange.scope["query_string"], operation.repeatable)
        else:
            given = await self._body(exchange)
        elsewhere: dict[str, Any] = {**exchange.path_values}
        if body_field is not None:
            elsewhere[body_field] = await self._upload(exchange)
        if doubled := [name for name in elsewhere if name in given]:
            raise MalformedRequestError(f"{', '.join(doubled)} is given by the path or the body already.")
        return self._service.decode(operation, given | elsewhere, strict=not in_address)

    async def _upload(self, exchange: Exchange) -> bytes:
        settings = self._settings
        return await exchange.body(settings.max_upload_bytes, settings.upload_body_seconds)

    async def _body(self, exchange: Exchange) -> dict[str, Any]:
        settings = self._settings
        body = await exchange.body(settings.max_body_bytes, settings.request_body_seconds)
        if not body or body.isspace():
            return {}
        check_no_nul(body)
        try:
            return _object.decode(body)
        except msgspec.ValidationError:
            raise MalformedRequestError("The body must be a JSON object.") from None
        except RecursionError:
            raise nested_too_deep() from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"The body is not JSON: {error}.") from None

    async def _render(self, exchange: Exchange, operation: Operation, outcome: Outcome) -> None:
        headers: dict[str, str] = {}
        if outcome.version is not None:
            headers["etag"] = f'"{outcome.version}"'
        if outcome.status == 201:
            headers["location"] = f"{operation.path.split('/{')[0]}/{outcome.object_id}"
        if outcome.location is not None:
            headers["location"] = outcome.location
        if outcome.replayed:
            headers["idempotency-replayed"] = "true"
        media_type = PROBLEM if outcome.status >= 400 else JSON
        await exchange.answer(outcome.status, encode(outcome.body), media_type, headers)

    async def _send(self, exchange: Exchange, download: Download) -> None:
        """A file as it grows, as long as somebody takes it."""
        disposition = f'attachment; filename="{download.filename}"'
        text = download.media_type.startswith("text/")
        media_type = f"{download.media_type}; charset=utf-8" if text else download.media_type
        await exchange.begin(200, media_type, {"content-disposition": disposition})
        await exchange.until_gone(_parts(exchange, download.content))

    async def refuse(self, exchange: Exchange, error: Exception) -> None:
        await exchange.refuse(error, self._settings.base_url)


async def _parts(exchange: Exchange, content: AsyncIterator[bytes]) -> None:
    async for part in content:
        if part:
            await exchange.part(part)
    await exchange.part(b"", last=True)


def note_operation(exchange: Exchange, operation: Operation) -> None:
    """For the log line and the measurement of this request."""
    scope: Any = exchange.scope
    scope[OPERATION] = operation.name
