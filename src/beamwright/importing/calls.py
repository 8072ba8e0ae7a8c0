"""Calls of the service during an import: whole lists, and commands that may be sent again after a crash."""

import time
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any
from uuid import uuid4

import msgspec

from beamwright.kernel.value import encode
from beamwright.surfaces.calling import Client, RefusedError, UnreachableError, operation, wanted

PAGE = 200
# How often a call is repeated that another writer, a restart or a busy moment got in the way of.
TRIES = 8
MOST_STORED = 20
PATIENCE = 10.0

type View = dict[str, Any]


class Calls:
    """What the import needs of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def url(self) -> str:
        return self._client.url

    def close(self) -> None:
        # The client of a short command is never closed; an import leaves many connections behind.
        self._client.close()

    def caught_up(self, lists: Collection[str]) -> None:
        """Wait, bounded, until the lists have seen what was written before; keys guard what is missed."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            parts = self._client.report()["projections"]
            if not any(each["behind_events"] for each in parts if each["name"] in lists):
                return
            time.sleep(0.05)

    def all(self, name: str, **filters: Any) -> Iterator[View]:
        """Every object of a list, oldest first, page after page."""
        cursor: dict[str, str] = {}
        while True:
            asked = {**filters, **cursor, "limit": PAGE, "sort": "created_at"}
            page = self._sent(name, asked, {})
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}

    def command(self, name: str, fields: Mapping[str, Any], standing: str) -> View:
        """Carry out a command once, however often it is asked for.

        The key is made of the command and of `standing`, what the object looked like: the same intention after a
        crash has the same key, and a later one has another. A refusal is kept under its key as well; since it
        did nothing, the next number is tried once what it complained about may have changed.
        """
        key = sha256(encode([name, fields, standing])).hexdigest()
        for number in range(MOST_STORED):
            correlation = f"import-{uuid4().hex}"
            headers = {"idempotency-key": f"import-{key}-{number}", "x-correlation-id": correlation}
            try:
                return self._sent(name, fields, headers)
            except RefusedError as refusal:
                if refusal.problem.get("correlation_id", correlation) == correlation:
                    raise
        return self._sent(name, fields, {})

    def _sent(self, name: str, fields: Mapping[str, Any], headers: Mapping[str, str]) -> View:
        request = wanted(operation(name), {}, fields)
        request = request._replace(headers={**request.headers, **headers})
        for attempt in range(TRIES):
            if attempt:
                time.sleep(min(0.05 * 2**attempt, 5))
            try:
                return msgspec.json.decode(self._client.send(request))
            except RefusedError as refusal:
                if attempt == TRIES - 1 or not passing(refusal.problem):
                    raise
            except UnreachableError:
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("unreachable")


def passing(problem: Mapping[str, Any]) -> bool:
    """Whether a refusal is about the moment and not about the request."""
    busy = {"ConcurrencyError", "IdempotencyInProgressError"}
    return problem.get("code") in busy or problem.get("status") in (429, 502, 503, 504)
