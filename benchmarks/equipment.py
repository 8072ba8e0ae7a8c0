"""Equipment: importing a facility, reading its tree, settings over several families, lists of a million assets."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import uvloop

from beamwright.kernel import wellknown
from benchmarks.growth import bare_query
from benchmarks.installation import Installation
from benchmarks.load import request, send
from benchmarks.table import Figure, difference, milliseconds, rate

CAMERA, STAGE, PROBE = (str(wellknown.seeded_family(number)) for number in (4, 1, 15))

# Assets with a parent and a family each, as register_asset writes them: some in every lifecycle and tier.
FILL = """WITH made AS (
        SELECT (overlay(gen_random_uuid()::text placing '7' from 15))::uuid AS id, n FROM generate_series(1, $1) AS n)
    INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id, command_name,
        surface_id, correlation_id, occurred_at)
    SELECT gen_random_uuid(), 'Asset', id, 1, 'AssetRegistered',
        json_build_object('occurred_at', to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'asset_id', id,
            'name', 'Stage ' || n % 5000, 'tier', (ARRAY['Component', 'Device'])[n % 2 + 1],
            'parent_id', $2::uuid, 'facility_code', null, 'scope_facility_code', 'home',
            'family_ids', json_build_array((ARRAY[$3, $4, $5])[n % 3 + 1]), 'settings', '{}'::json,
            'settings_schema_versions', '{}'::json, 'ports', '[]'::json, 'model_id', null, 'drawing', null,
            'controller_id', null, 'located_in_enclosure_id', null,
            'alternate_identifiers', json_build_array(
                json_build_object('kind', 'CONTROLSYS_PV', 'value', 'BW:' || n)),
            'owners', '[]'::json),
        '01900000-0000-7000-8000-00a000000102', 'register_asset', '01900000-0000-7000-8000-00a000000301', 'fill',
        now() - make_interval(secs => n * 0.001) FROM made"""


def bench(place: Installation, assets: int, rows: int) -> list[Figure]:
    with place.serving(), place.client() as client:
        figures = [*importing(place, assets), *subtree(place, client, assets), *settings(place, client)]
        unit = registered(client, "Filled", tier="Unit", facility_code="home")
    uvloop.run(_fill(place.dsn, rows, UUID(unit)))
    with place.serving():
        return figures + filters(place, rows)


def registered(client: httpx.Client, name: str, **fields: Any) -> str:
    answer = client.post("/assets", json={"name": name, "tier": "Device"} | fields)
    answer.raise_for_status()
    return answer.json()["asset_id"]


def importing(place: Installation, count: int) -> list[Figure]:
    file = place.directory / "facility.yaml"
    file.write_text(facility(count))
    environment = os.environ | {"BEAMWRIGHT_TOKEN": place.token}
    command = [sys.executable, "-m", "beamwright", "import", str(file)]
    began = time.perf_counter()
    url = ["--url", f"http://127.0.0.1:{place.port}"]
    subprocess.run([*command, *url], env=environment, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    bare = uvloop.run(_bare_registrations(place.dsn, 2 * count, 16))
    return [
        Figure(
            f"import of {count:,} assets (register and activate each), assets",
            rate(count / took),
            f"same events by 16 asyncpg connections {rate(count / bare)}",
            f"{bare / took:.0%}",
        )
    ]


def facility(count: int) -> str:
    """Beamlines of a hundred devices each, written as JSON, which YAML reads."""
    devices = [
        {
            "name": f"Device {n}",
            "tier": "Device",
            "families": ["GenericProbe"],
            "settings": {"serial_number": f"S{n}"},
        }
        for n in range(count - count // 100)
    ]
    units = [
        {
            "name": f"Beamline {n}",
            "tier": "Component",
            "lifecycle": "Commissioned",
            "children": devices[n * 99 : n * 99 + 99],
        }
        for n in range(count // 100)
    ]
    root = {"name": "Imported", "tier": "Unit", "lifecycle": "Commissioned", "children": units}
    return json.dumps({"beamwright": 1, "facility": {"code": "home"}, "assets": [root]}, indent=1)


async def _bare_registrations(dsn: str, count: int, clients: int) -> float:
    """The events of the import in a loop through asyncpg and nothing else: seconds."""
    import asyncio

    payload = json.dumps({"asset_id": str(uuid4()), "name": "Device", "padding": "x" * 420})
    numbers = iter(range(count))

    async def loop() -> None:
        connection = await asyncpg.connect(dsn)
        statement = await connection.prepare(
            "INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id, "
            "command_name, surface_id, correlation_id, occurred_at) "
            "VALUES ($1, 'Bare', $1, 1, 'AssetRegistered', $2, $1, 'register_asset', $1, 'bench', now())"
        )
        for _ in numbers:
            await statement.fetch(uuid4(), payload)
        await connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(clients)))
    return time.perf_counter() - began


def subtree(place: Installation, client: httpx.Client, count: int) -> list[Figure]:
    root = client.get("/assets", params={"q": "Imported", "tier": "Unit"}).json()["items"][0]["id"]

    def read() -> int:
        seen, cursor = 0, {}
        while True:
            page = client.get(f"/assets/{root}/subtree", params={"limit": 2000} | cursor).json()
            seen += len(page["items"])
            if page["next_cursor"] is None:
                return seen
            cursor = {"cursor": page["next_cursor"]}

    seen, took = timed(read)
    sql = f"""WITH RECURSIVE tree AS (SELECT id, 0 AS depth, ARRAY[]::text[] AS path FROM {_table(place)} WHERE id = $1
        UNION ALL SELECT c.id, t.depth + 1, t.path || (c.s_name || c.id::text) FROM tree t
        JOIN {_table(place)} c ON c.f_parent_id = t.id)
        SELECT l.id, version, state, depth FROM tree JOIN {_table(place)} l USING (id) ORDER BY path"""
    _, bare, _ = uvloop.run(bare_query(place.dsn, sql, [(UUID(root),)] * 5))
    return [
        Figure(
            f"subtree of {seen:,} assets, whole, in pages of 2,000",
            milliseconds(took),
            f"one recursive SQL {milliseconds(bare)}",
            f"{took / bare:.1f}x",
        )
    ]


def timed[T](work: Callable[[], T]) -> tuple[T, float]:
    work()
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def settings(place: Installation, client: httpx.Client) -> list[Figure]:
    unit = registered(client, "Settings", tier="Unit", facility_code="home")
    family_ids = [CAMERA, STAGE, PROBE]
    ids = [registered(client, f"D{n}", parent_id=unit, family_ids=family_ids) for n in range(200)]
    calls = [
        request(
            "POST",
            f"/assets/{id}/update-settings",
            place.token,
            json.dumps({"settings_patch": {"pixel_size": 1.5 + n}}).encode(),
        )
        for n in range(4)
        for id in ids
    ]
    sent = uvloop.run(send(place.port, 1, lambda: iter(calls)))
    assert set(sent.statuses) == {200}, sent.statuses
    streams = [("Asset", UUID(ids[0])), *(("Family", UUID(id)) for id in family_ids)]
    bare = uvloop.run(_read_and_insert(place.dsn, streams, 400))
    return [
        Figure(
            "update_asset_settings over three families, 1 client, p50",
            milliseconds(sent.p50),
            f"the four streams read and one INSERT, bare {milliseconds(bare)}",
            difference(sent.p50 - bare),
        )
    ]


async def _read_and_insert(dsn: str, streams: list[tuple[str, UUID]], times: int) -> float:
    connection = await asyncpg.connect(dsn)
    read = await connection.prepare(
        "SELECT event_type, payload FROM events WHERE stream_type = $1 AND stream_id = $2 ORDER BY version"
    )
    write = await connection.prepare(
        "INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id, "
        "command_name, surface_id, correlation_id, occurred_at) "
        "VALUES ($1, 'Bare', $1, 1, 'AssetSettingsUpdated', $2, $1, 'update_asset_settings', $1, 'bench', now())"
    )
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        for stream in streams:
            await read.fetch(*stream)
        await write.fetch(uuid4(), '{"settings": {"pixel_size": 1.5}}')
        took.append(time.perf_counter() - began)
    await connection.close()
    return sorted(took)[times // 2]


async def _fill(dsn: str, rows: int, parent: UUID) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=1200)
    await connection.execute(FILL, rows, parent, CAMERA, STAGE, PROBE)
    await connection.execute("ANALYZE events")
    await connection.close()


FILTERS = {
    "lifecycle and tier": (
        "lifecycle=Commissioned&tier=Device",
        "f_lifecycle = 'Commissioned' AND f_tier = 'Device'",
    ),
    "family": (f"family_id={CAMERA}", f"f_family_id @> ARRAY['{CAMERA}']::uuid[]"),
    "alternate identifier": (
        "alternate_identifier=CONTROLSYS_PV:BW:777",
        "f_alternate_identifier @> ARRAY['CONTROLSYS_PV:BW:777']::text[]",
    ),
    "text": ("q=stage 4321", "words @@ websearch_to_tsquery('simple', 'stage 4321')"),
}


def filters(place: Installation, rows: int) -> list[Figure]:
    place.wait_until_ready(1200)
    uvloop.run(_analyze(place.dsn, _table(place)))
    figures: list[Figure] = []
    for name, (query, where) in FILTERS.items():
        calls = [request("GET", f"/assets?limit=50&{query.replace(' ', '%20')}", place.token)] * 100
        sent = uvloop.run(send(place.port, 1, lambda calls=calls: iter(calls)))
        assert set(sent.statuses) == {200}, sent.statuses
        sql = f"""SELECT id, version, state, created_at, updated_at, created_by FROM {_table(place)}
            WHERE {where} ORDER BY created_at DESC, id DESC LIMIT 51"""
        _, p50, _ = uvloop.run(bare_query(place.dsn, sql, [()] * 100))
        figures.append(
            Figure(
                f"list of {rows:,} assets by {name}, page of 50, p50",
                milliseconds(sent.p50),
                f"plain SQL {milliseconds(p50)}",
                difference(sent.p50 - p50),
            )
        )
    return figures


async def _analyze(dsn: str, table: str) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    await connection.execute(f"ANALYZE {table}")
    await connection.close()


def _table(place: Installation) -> str:
    async def found() -> str:
        connection = await asyncpg.connect(place.dsn)
        name = await connection.fetchval(
            "SELECT name || '_' || version FROM projections WHERE name = 'asset' AND serving"
        )
        await connection.close()
        return f"lists.{name}"

    return uvloop.run(found())
