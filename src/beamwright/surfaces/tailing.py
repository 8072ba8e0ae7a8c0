"""The feed on the command line: pages until the end, or server-sent events across lost connections."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from .calling import Client, RefusedError, UnreachableError, Wanted

LONGEST_PAYLOAD = 120
PAGE = "200"

type Item = dict[str, Any]


class Message(NamedTuple):
    """One server-sent event."""

    event: str
    data: str


def pages(client: Client, after: str | None, event_type: str | None) -> Iterator[Item]:
    """Everything there is now."""
    while True:
        query = {"limit": PAGE} | _given(after=after, event_type=event_type)
        page: Item = msgspec.json.decode(client.send(Wanted("GET", "/events", query)))
        yield from page["items"]
        if page["next"] == after:
            return
        after = page["next"]


def follow(
    client: Client, after: str | None, event_type: str | None, lost: Callable[[str], None]
) -> Iterator[Item]:
    """Everything there is and everything to come; `lost` is told of each lost connection."""
    connected = False
    while True:
        headers = {"accept": "text/event-stream"} | _given(**{"last-event-id": after})
        wanted = Wanted("GET", "/events", _given(event_type=event_type), headers=headers)
        try:
            with client.stream(wanted) as lines:
                connected = True
                for message in messages(lines):
                    item: Item = msgspec.json.decode(message.data)
                    if message.event == "problem":
                        raise RefusedError(item)
                    after = item["token"]
                    yield item
            lost("The service ended the stream; trying again.")
        except UnreachableError as error:
            if not connected:
                raise
            lost(f"{error} Trying again.")
        except RefusedError as refusal:
            # What is away comes back; what is forbidden stays so.
            if not connected or refusal.problem.get("status", 500) < 500:
                raise
            lost(f"{refusal.problem.get('title')} Trying again.")
        time.sleep(1)


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Server-sent events out of their lines; comments and unfinished events are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            yield Message(fields.get("event", "message"), fields["data"])
        fields = {}


def line_of(item: Item) -> str:
    """Time, type, subject, principal and the beginning of the payload, without what was said already."""
    said = (item["streamid"], item["time"])
    payload = msgspec.json.encode({k: v for k, v in item["data"].items() if v not in said}).decode()
    if len(payload) > LONGEST_PAYLOAD:
        payload = payload[: LONGEST_PAYLOAD - 1] + "…"
    kind = item["type"].removeprefix("beamwright.")
    return f"{item['time']}  {kind}  {item['subject']}  by {item['principalid']}  {payload}"


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
