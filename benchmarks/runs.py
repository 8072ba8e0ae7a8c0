"""Runs: starts through the whole gate, bulk entries against COPY, plots of many points, long runs."""

import asyncio
import io
import json
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import uvloop

from beamwright.kernel import wellknown
from benchmarks.growth import bare_query, execute
from benchmarks.installation import Installation
from benchmarks.load import request, send
from benchmarks.round_trips import of_a_start
from benchmarks.table import Figure, difference, milliseconds, rate

CAMERA = str(wellknown.seeded_family(4))
COPIED = (
    "run_id",
    "event_id",
    "principal_id",
    "value",
    "sampled_at",
    "simulated",
    "late",
    "channel_name",
    "sampling_procedure",
    "correlation_id",
)
POINTS = """INSERT INTO entries_run_observations (run_id, event_id, channel_name, value, sampling_procedure, sampled_at,
        simulated, late, principal_id, correlation_id)
    SELECT $1, gen_random_uuid(), 'current', 100 + random(), 'Monitor', now() + n * interval '1 ms', false, false, $1,
        'fill' FROM generate_series(1, $2) AS n"""


class Bench:
    """A beamline to start runs on."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.monitor = self._monitor()

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def _monitor(self) -> str:
        login = {"issuer": wellknown.BUILT_IN_ISSUER, "subject": "bench-monitor"}
        account = self.post("/actors", name="Monitor", kind="service_account", identities=[login])
        grant = {
            "effect": "Allow",
            "operations": ["observe_enclosure_status"],
            "scope": {"kind": "Everything"},
        }
        principals = {"actor_ids": [account["actor_id"]]}
        self.post("/policies", name="Bench monitor", principals=principals, grants=[grant])
        return "bench-monitor"

    def plan(self) -> str:
        """20 assets five ancestors deep, in 3 enclosures, with 3 supplies and 2 clearances."""
        enclosures = [
            self.post("/enclosures", name=f"Station {n}", facility_code="home")["enclosure_id"]
            for n in range(3)
        ]
        parent = self.post("/assets", name="Beamline", tier="Unit", facility_code="home")["asset_id"]
        root = parent
        for level in range(4):
            parent = self.post("/assets", name=f"Level {level}", tier="Component", parent_id=parent)[
                "asset_id"
            ]
        assets = [self.asset(parent, enclosures[n % 3]) for n in range(20)]
        for kind in ("photon_beam", "vacuum", "cryogen"):
            supply = self.post("/supplies", kind=kind, name=kind, facility_code="home")["supply_id"]
            self.post(f"/supplies/{supply}/mark-available", reason="bench")
        for bound in (root, assets[0]):
            self.clearance(bound)
        self.enclosures = enclosures
        return self.defined(assets)

    def asset(self, parent: str, enclosure: str) -> str:
        body = {"name": "Camera", "tier": "Device", "parent_id": parent, "family_ids": [CAMERA]}
        asset = self.post("/assets", **body, located_in_enclosure_id=enclosure)["asset_id"]
        self.post(f"/assets/{asset}/activate")
        return asset

    def clearance(self, asset: str) -> None:
        body = {"template_id": str(wellknown.GENERAL_CLEARANCE_TEMPLATE), "title": "Bench"}
        made = self.post("/clearances", **body, bindings=[{"kind": "Asset", "id": asset}])["clearance_id"]
        self.post(f"/clearances/{made}/submit")
        self.post(f"/clearances/{made}/start-review")
        self.post(f"/clearances/{made}/review-steps/append", role="any", decision="Approved")
        for verb in ("approve", "activate"):
            self.post(f"/clearances/{made}/{verb}")

    def defined(self, assets: list[str]) -> str:
        capability = self.post(
            "/capabilities",
            code=f"beamwright.capability.bench{uuid4().hex}",
            name="Bench",
            required_affordances=["Imageable"],
            executor_shapes=["METHOD"],
        )["capability_id"]
        method = self.post(
            "/methods",
            name="Bench",
            capability_id=capability,
            execution_pattern="Batch",
            needed_supplies=["photon_beam", "vacuum", "cryogen"],
        )["method_id"]
        practice = self.post("/practices", name="Bench", method_id=method, facility_code="home")[
            "practice_id"
        ]
        return self.post("/plans", name="Bench", practice_id=practice, asset_ids=assets)["plan_id"]

    def permit(self, place: Installation) -> None:
        """As an outside monitor that pushes."""
        token = place.token_of(self.monitor)
        for enclosure in self.enclosures:
            body = {
                "observed_status": "Permitted",
                "monitor_ref": {"source_kind": "push", "source_id": "bench"},
                "observed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "reason": "bench",
            }
            headers = {"authorization": f"Bearer {token}"}
            answer = self.client.post(f"/enclosures/{enclosure}/observe", json=body, headers=headers)
            assert answer.is_success, answer.text


def bench(place: Installation, starts: int, batches: int, points: int) -> list[Figure]:
    with place.serving(), place.client() as client:
        bench = Bench(client)
        plan = bench.plan()
        bench.permit(place)
        figures = starting(place, plan, starts)
        run = bench.post("/runs", name="Observed", plan_id=plan)["run_id"]
        bench.permit(place)
        figures += phasing(place, bench, run, starts)
        figures += observing(place, run, batches)
        figures += plotting(place, client, run, points)
        bench.permit(place)
        figures += holding(place, bench, plan, 10_000 if starts > 50 else 200)
        bench.permit(place)
    return [figures[0], counting(place, plan), *figures[1:]]


def starting(place: Installation, plan: str, count: int) -> list[Figure]:
    body = json.dumps({"name": "Run", "plan_id": plan}).encode()
    calls = [request("POST", "/runs", place.token, body)] * count
    sent = uvloop.run(send(place.port, 1, lambda: iter(calls)))
    assert set(sent.statuses) == {201}, sent.statuses
    what = "start_run: 20 assets 5 deep, 3 enclosures, 3 supplies, 2 clearances, 1 client"
    return [
        Figure(f"{what}, p50", milliseconds(sent.p50)),
        Figure(f"{what}, p99", milliseconds(sent.p99)),
    ]


def phasing(place: Installation, bench: Bench, run: str, count: int) -> list[Figure]:
    """Phases of the run, which are bound to its assets and need its supplies."""
    body = {"name": "Phase", "kind": "phase", "parent_run_id": run}
    phases = [bench.post("/procedures", **body)["procedure_id"] for _ in range(count)]
    calls = [request("POST", f"/procedures/{phase}/start", place.token, b"{}") for phase in phases]
    sent = uvloop.run(send(place.port, 1, lambda: iter(calls)))
    assert set(sent.statuses) == {200}, sent.statuses
    what = "start_procedure: a phase of that run, 1 client"
    figures = [
        Figure(f"{what}, p50", milliseconds(sent.p50)),
        Figure(f"{what}, p99", milliseconds(sent.p99)),
    ]
    size, batches = 1_000, max(5, count // 10)
    path = f"/procedures/{phases[0]}/activities/append"
    rows = [_activities(size) for _ in range(batches)]
    calls = [request("POST", path, place.token, json.dumps({"entries": each}).encode()) for each in rows]
    sent = uvloop.run(send(place.port, 1, lambda: iter(calls)))
    assert set(sent.statuses) == {200}, sent.statuses
    got, copied = sent.per_second * size, uvloop.run(_copy_activities(place.dsn, rows))
    return [
        *figures,
        Figure(
            "activities as JSON, 1,000 at once, 1 client",
            rate(got),
            f"COPY {rate(copied)}",
            f"{got / copied:.0%}",
        ),
    ]


def _activities(count: int) -> list[dict[str, Any]]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return [
        {
            "event_id": str(uuid4()),
            "step_kind": "Setpoint",
            "step_index": n % 10,
            "result": "Succeeded",
            "payload": {"address": "ca://stage:angle", "value": n * 0.5},
            "sampled_at": now,
        }
        for n in range(count)
    ]


async def _copy_activities(dsn: str, batches: list[list[dict[str, Any]]]) -> float:
    """The same rows, straight into a table like the one that keeps them."""
    now, id, table = datetime.now(UTC), uuid4(), "copied_activities"
    columns = ("procedure_id", "event_id", "principal_id", "sampled_at", "recorded_at", "step_index", "late")
    columns += ("step_kind", "result", "target", "correlation_id", "payload")
    rows = [
        [
            (
                *(id, UUID(each["event_id"]), id, now, now, each["step_index"], False, each["step_kind"]),
                *(each["result"], each["payload"]["address"], "bench", json.dumps(each["payload"])),
            )
            for each in batch
        ]
        for batch in batches
    ]
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE TABLE {table} (LIKE entries_procedure_activities INCLUDING ALL)")
    begun = time.perf_counter()
    for batch in rows:
        await connection.copy_records_to_table(table, records=batch, columns=columns)
    took = time.perf_counter() - begun
    await connection.execute(f"DROP TABLE {table}")
    await connection.close()
    return sum(map(len, rows)) / took


def counting(place: Installation, plan: str) -> Figure:
    """In a process of its own, because only there the driver can be asked."""
    sent = sorted(len(each) for each in asyncio.run(of_a_start(place, plan)))
    spread = f"{sent[0]} to {sent[-1]}"
    return Figure("the same start, round trips to the database, median", str(sent[len(sent) // 2]), spread)


def observing(place: Installation, run: str, batches: int) -> list[Figure]:
    """JSON in batches of 2,000, Arrow in batches of 50,000."""
    figures: list[Figure] = []
    small, large = 2_000, 50_000
    copied = uvloop.run(_copy(place.dsn, 200_000 if batches > 5 else 20_000))
    path = f"/runs/{run}/observations/append"
    for clients in (1, 8):
        json_calls = [request("POST", path, place.token, _json_batch(small)) for _ in range(batches)]
        sent = uvloop.run(send(place.port, clients, lambda calls=json_calls: iter(calls)))
        assert set(sent.statuses) == {200}, sent.statuses
        got = sent.per_second * small
        figures.append(
            Figure(
                f"observations as JSON, {clients} clients",
                rate(got),
                f"COPY {rate(copied)}",
                f"{got / copied:.0%}",
            )
        )
        arrow_calls = [_arrow_request(path, place.token, large) for _ in range(max(clients, batches // 5))]
        sent = uvloop.run(send(place.port, clients, lambda calls=arrow_calls: iter(calls)))
        assert set(sent.statuses) == {200}, sent.statuses
        got = sent.per_second * large
        figures.append(
            Figure(
                f"observations as Arrow, {clients} clients",
                rate(got),
                f"COPY {rate(copied)}",
                f"{got / copied:.0%}",
            )
        )
    return figures


def _json_batch(count: int) -> bytes:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    entries = [
        {
            "event_id": str(uuid4()),
            "channel_name": f"channel {n % 10}",
            "value": n * 0.5,
            "sampling_procedure": "Monitor",
            "sampled_at": now,
        }
        for n in range(count)
    ]
    return json.dumps({"entries": entries}).encode()


def _arrow_request(path: str, token: str, count: int) -> bytes:
    import pyarrow as pa

    now = int(time.time() * 1e6)
    table = pa.table(
        {
            "event_id": pa.array([uuid4().bytes for _ in range(count)], pa.binary(16)),
            "channel_name": pa.array([f"channel {n % 10}" for n in range(count)]).dictionary_encode(),
            "value": pa.array([n * 0.5 for n in range(count)]),
            "sampled_at": pa.array([now] * count, pa.timestamp("us", "UTC")),
            "sampling_procedure": pa.array(["Monitor"] * count).dictionary_encode(),
        }
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made = request("POST", path, token, sink.getvalue())
    return made.replace(
        b"Content-Type: application/json", b"Content-Type: application/vnd.apache.arrow.stream", 1
    )


async def _copy(dsn: str, count: int) -> float:
    """COPY of rows of the same shape into a table of the same indexes."""
    connection = await asyncpg.connect(dsn, command_timeout=600)
    await connection.execute("CREATE TABLE copied (LIKE entries_run_observations INCLUDING ALL)")
    run, now = uuid4(), await connection.fetchval("SELECT now()")
    rows = [
        (run, uuid4(), run, n * 0.5, now, False, False, f"channel {n % 10}", "Monitor", "bench")
        for n in range(count)
    ]
    began = time.perf_counter()
    await connection.copy_records_to_table("copied", records=rows, columns=COPIED)
    took = time.perf_counter() - began
    await connection.execute("DROP TABLE copied")
    await connection.close()
    return count / took


def plotting(place: Installation, client: httpx.Client, run: str, points: int) -> list[Figure]:
    uvloop.run(_points(place.dsn, UUID(run), points))

    def read() -> float:
        began = time.perf_counter()
        answer = client.get(
            f"/runs/{run}/observations", params={"channel_name": "current", "max_points": 1000}, timeout=120
        )
        assert answer.is_success, answer.text
        return time.perf_counter() - began

    read()
    took = read()
    sql = """SELECT width_bucket(extract(epoch FROM sampled_at)::float8, b.low, b.high, 1000) AS bucket, min(value),
        max(value), avg(value), count(*) FROM entries_run_observations, (SELECT extract(epoch FROM
        min(sampled_at))::float8 AS low, extract(epoch FROM max(sampled_at))::float8 + 1 AS high FROM
        entries_run_observations WHERE run_id = $1 AND channel_name = 'current') b
        WHERE run_id = $1 AND channel_name = 'current' GROUP BY 1 ORDER BY 1"""
    _, bare, _ = uvloop.run(bare_query(place.dsn, sql, [(UUID(run),)] * 3))
    return [
        Figure(
            f"plot of 1,000 buckets over {points:,} points",
            milliseconds(took),
            f"same aggregation in SQL {milliseconds(bare)}",
            f"{took / bare:.2f}x",
        )
    ]


async def _points(dsn: str, run: UUID, points: int) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=1200)
    await connection.execute(POINTS, run, points)
    await connection.execute("VACUUM ANALYZE entries_run_observations")
    await connection.close()


LENGTHEN = """INSERT INTO events (event_id, stream_type, stream_id, version, event_type, payload, principal_id,
        command_name, surface_id, correlation_id, occurred_at)
    SELECT gen_random_uuid(), stream_type, stream_id, version + n, event_type, payload, principal_id, command_name,
        surface_id, correlation_id, occurred_at
    FROM events, generate_series(1, $2) AS n WHERE stream_type = 'Run' AND stream_id = $1 AND version = 2"""


def holding(place: Installation, bench: Bench, plan: str, events: int) -> list[Figure]:
    """Hold and resume, gate included, on a run as it began and on one with a long logbook."""
    short = _moved(place, bench, plan, 2)
    long = _moved(place, bench, plan, events)
    return [
        Figure(
            f"{move} on a run of {events:,} events, p50",
            milliseconds(long[move]),
            f"of 2 events {milliseconds(short[move])}",
            difference(long[move] - short[move]),
        )
        for move in long
    ]


def _moved(place: Installation, bench: Bench, plan: str, events: int) -> dict[str, float]:
    bench.permit(place)
    run = bench.post("/runs", name="Long", plan_id=plan)["run_id"]
    bench.post(f"/runs/{run}/logbook/append", text="still there")
    uvloop.run(execute(place.dsn, LENGTHEN, UUID(run), events - 2))
    took: dict[str, list[float]] = {"hold": [], "resume": []}
    for move in ("hold", "resume") * 20:
        fields = {"reason": "bench"} if move == "hold" else {}
        body = json.dumps(fields).encode()
        call = request("POST", f"/runs/{run}/{move}", place.token, body)
        sent = uvloop.run(send(place.port, 1, lambda call=call: iter([call])))
        assert set(sent.statuses) == {200}, sent.statuses
        took[move].append(sent.p50)
    return {move: sorted(each)[len(each) // 2] for move, each in took.items()}
