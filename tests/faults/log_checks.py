"""The audit after a load: plain SQL over log, claims, keys and lists, independent of the service's own code."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import asyncpg

from tests.faults.kill_load import Ledger, Sent

ENTRIES = """SELECT procedure_id, event_id, sampled_at, late FROM entries_procedure_activities
    UNION ALL SELECT procedure_id, event_id, sampled_at, late FROM entries_procedure_outcomes"""
ENDS = "ARRAY['ProcedureCompleted', 'ProcedureAborted', 'ProcedureTruncated']"

# Each finds rows that must not be.
WRONG = {
    "a hole in a stream's versions": """SELECT stream_type, stream_id, count(*), min(version), max(version)
        FROM events GROUP BY 1, 2 HAVING min(version) <> 1 OR max(version) <> count(*)""",
    "events of a stream in another order than their versions": """SELECT * FROM (
        SELECT stream_type, stream_id, version, transaction_id, position,
            lag(position) OVER stream AS position_before, lag(transaction_id) OVER stream AS transaction_before
        FROM events WINDOW stream AS (PARTITION BY stream_type, stream_id ORDER BY version)) AS ordered
        WHERE position <= position_before OR transaction_id < transaction_before""",
    "a command recorded in more than one transaction": """SELECT correlation_id, count(DISTINCT transaction_id)
        FROM events WHERE correlation_id ~ '^[ku]-' GROUP BY 1 HAVING count(DISTINCT transaction_id) > 1""",
    "events without the answer of their key": """SELECT e.correlation_id, e.position FROM events e
        LEFT JOIN idempotency i ON i.key = e.correlation_id AND i.transaction_id = e.transaction_id
        WHERE e.correlation_id LIKE 'k-%' AND i.key IS NULL""",
    "an answer without its events": """SELECT i.key, i.status, i.position FROM idempotency i
        LEFT JOIN events e ON e.position = i.position AND e.transaction_id = i.transaction_id
            AND e.correlation_id = i.key
        WHERE i.key LIKE 'k-%' AND i.status < 300 AND e.position IS NULL""",
    "a refusal with events": """SELECT i.key, i.status FROM idempotency i JOIN events e ON e.correlation_id = i.key
        WHERE i.key LIKE 'k-%' AND i.status >= 300""",
    "a claim of no stream": """SELECT c.* FROM claims c WHERE NOT EXISTS (
        SELECT FROM events e WHERE e.stream_type = c.stream_type AND e.stream_id = c.stream_id)""",
    "a zone's name and its claim that do not agree": """WITH zones AS (
            SELECT DISTINCT ON (stream_id) stream_id, lower(payload->>'name') AS name FROM events
            WHERE stream_type = 'Zone' AND event_type IN ('ZoneDefined', 'ZoneUpdated') AND stream_id NOT IN (
                SELECT stream_id FROM events WHERE stream_type = 'Zone' AND event_type = 'ZoneRetired')
            ORDER BY stream_id, version DESC)
        SELECT z.stream_id, z.name, c.stream_id, c.key FROM zones z
        FULL JOIN (SELECT * FROM claims WHERE kind = 'zone-name') c
            ON c.stream_id = z.stream_id AND c.key = z.name
        WHERE z.stream_id IS NULL OR c.stream_id IS NULL""",
    "a supply's address and its claim that do not agree": """WITH supplies AS (
            SELECT stream_id, (payload->>'facility_code') || E'\\n-\\n' || (payload->>'kind') || E'\\n'
                || (payload->>'name') AS address FROM events
            WHERE event_type = 'SupplyRegistered' AND stream_id NOT IN (
                SELECT stream_id FROM events WHERE event_type = 'SupplyDeregistered'))
        SELECT s.*, c.* FROM supplies s FULL JOIN (SELECT * FROM claims WHERE kind = 'supply-address') c
            ON c.stream_id = s.stream_id AND c.key = s.address
        WHERE s.stream_id IS NULL OR c.stream_id IS NULL""",
    "a mount and an asset that do not agree on who is in whom": """WITH installed AS (
            SELECT DISTINCT ON (stream_id) stream_id AS mount, payload->>'asset_id' AS asset, event_type FROM events
            WHERE event_type IN ('MountAssetInstalled', 'MountAssetUninstalled') ORDER BY stream_id, version DESC),
        carried AS (
            SELECT DISTINCT ON (stream_id) stream_id AS asset, payload->>'mount_id' AS mount, event_type FROM events
            WHERE event_type IN ('AssetInstalledInMount', 'AssetUninstalledFromMount')
            ORDER BY stream_id, version DESC)
        SELECT * FROM (SELECT * FROM installed WHERE event_type = 'MountAssetInstalled') i
        FULL JOIN (SELECT * FROM carried WHERE event_type = 'AssetInstalledInMount') c
            ON i.asset = c.asset::text AND c.mount = i.mount::text
        WHERE i.mount IS NULL OR c.asset IS NULL""",
    "a channel whose summary is not that of its samples": """SELECT * FROM run_channels c FULL JOIN (
            SELECT run_id, channel_name, count(*) AS counted, min(value) AS least, max(value) AS most
            FROM entries_run_observations GROUP BY 1, 2) e USING (run_id, channel_name)
        WHERE c.observation_count IS DISTINCT FROM e.counted OR c.minimum IS DISTINCT FROM e.least
            OR c.maximum IS DISTINCT FROM e.most""",
    "an entry of another time than its procedure's": f"""SELECT r.*, s.occurred_at, e.occurred_at FROM ({ENTRIES}) r
        LEFT JOIN events s ON s.stream_id = r.procedure_id AND s.event_type = 'ProcedureStarted'
        LEFT JOIN events e ON e.stream_id = r.procedure_id AND e.event_type = ANY ({ENDS})
        WHERE s.occurred_at IS NULL OR r.sampled_at < s.occurred_at - interval '60 seconds'
            OR (r.late AND (e.occurred_at IS NULL OR r.sampled_at > e.occurred_at))""",
    "an outcome of a pass that was not begun": """SELECT o.* FROM entries_procedure_outcomes o
        WHERE NOT EXISTS (SELECT FROM events e WHERE e.event_type = 'ProcedureIterationStarted'
            AND e.stream_id = o.procedure_id AND (e.payload->>'iteration_index')::int = o.iteration_index)""",
}

RECORDED = """SELECT correlation_id, array_agg(event_type ORDER BY position) AS events,
    max(transaction_id::text::bigint) AS transaction_id, max(position) AS position,
    count(DISTINCT transaction_id) AS transactions
    FROM events WHERE correlation_id ~ '^[ku]-' GROUP BY 1"""

NEWEST = """SELECT transaction_id::text::bigint, position FROM events
    ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1"""
SERVING = "SELECT name, version, transaction_id, position FROM projections WHERE serving ORDER BY name"


class Standing(NamedTuple):
    """How what clients were told compares with what the log holds."""

    acknowledged: int
    lost: list[str]
    doubled: list[str]
    different: list[str]
    unheard_of: list[str]


async def wrong(connection: asyncpg.Connection) -> dict[str, list[Any]]:
    """Whatever the log, its claims and its keys disagree about; nothing, if all is well."""
    found = {name: await connection.fetch(f"{query} LIMIT 10") for name, query in WRONG.items()}
    return {name: [dict(row) for row in rows] for name, rows in found.items() if rows}


async def standing(connection: asyncpg.Connection, ledger: Ledger) -> Standing:
    """Every acknowledged command against the events that carry its name."""
    recorded = {row["correlation_id"]: row for row in await connection.fetch(RECORDED)}
    told = {key: json.loads(sent.text) for key, sent in ledger.acknowledged.items() if key[0] == "k"}
    told |= {name: answer for name, answer in ledger.once.items() if answer is not None}
    lost = [key for key in told if key not in recorded]
    lost += await _missing_samples(connection, ledger)
    there = [(key, told[key], recorded[key]) for key in told if key in recorded]
    doubled = [
        key
        for key, answer, row in there
        if row["transactions"] > 1 or len(row["events"]) > len(answer["events"])
    ]
    different = [key for key, answer, row in there if not _agrees(answer, row) and key not in doubled]
    different += await _different_answers(connection, ledger.acknowledged | ledger.refused)
    known = told.keys() | ledger.once.keys()
    return Standing(
        acknowledged=len(ledger.acknowledged) + sum(each is not None for each in ledger.once.values()),
        lost=lost,
        doubled=doubled,
        different=different,
        unheard_of=[key for key in recorded if key not in known],
    )


def _agrees(answer: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    mark = f"{row['transaction_id']:x}.{row['position']:x}"
    return answer["events"] == row["events"] and answer["as_of"] == mark


async def _missing_samples(connection: asyncpg.Connection, ledger: Ledger) -> list[str]:
    rows = await connection.fetch("SELECT event_id, run_id, value FROM entries_run_observations")
    kept = {str(row[0]): (str(row[1]), row[2]) for row in rows}
    assert len(kept) == len(rows), "a sample is kept twice"
    return [id for id, sample in ledger.samples.items() if kept.get(id) != sample]


async def _different_answers(connection: asyncpg.Connection, answered: Mapping[str, Sent]) -> list[str]:
    """Keys whose kept answer is not, to the byte, what was answered; its token is filled in when it is read."""
    rows = await connection.fetch("SELECT key, status, body FROM idempotency WHERE key ~ '^[kb]-'")
    kept = {row["key"]: (row["status"], row["body"]) for row in rows}

    def blank(sent: Sent) -> tuple[int, str]:
        token = json.loads(sent.text).get("as_of", "")
        return sent.status, sent.text.replace(f'"as_of":"{token}"', '"as_of":""', 1)

    return [key for key, sent in answered.items() if kept.get(key) != blank(sent)]


async def settled(connection: asyncpg.Connection) -> None:
    """Until every list has seen the newest event, and reactions to it have nothing more to add."""
    newest, quiet = None, 0
    for _ in range(1200):
        mark = tuple(await connection.fetchrow(NEWEST))
        rows = await connection.fetch(SERVING)
        there = bool(rows) and all(tuple(row)[2:] == mark for row in rows)
        quiet = quiet + 1 if there and mark == newest else 0
        if quiet == 10:
            return
        newest = mark
        await asyncio.sleep(0.1)
    raise AssertionError("the lists did not catch up")


async def lists(connection: asyncpg.Connection) -> dict[str, tuple[int, str]]:
    """Of each list that serves: how many rows it has, and a digest of all of them, column by column, as text."""
    found = {}
    for row in await connection.fetch(SERVING):
        query = f"""SELECT count(*), coalesce(md5(string_agg(md5(t::text), '' ORDER BY id)), '')
            FROM lists.{row["name"]}_{row["version"]} t"""
        found[row["name"]] = tuple(await connection.fetchrow(query))
    return found
