"""The service is killed while compute jobs are reserved, run and end: each runs once, and each end is recorded."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from beamwright.kernel import wellknown
from tests.faults.form import record, seeded, sized
from tests.faults.service import Served, ready, served
from tests.live import Cluster

JOBS = sized(short=4, long=40)
KILLS = sized(short=2, long=25)
PROGRAM = """
import sys, time
with open(sys.argv[1], "a") as trace:
    trace.write("once\\n")
time.sleep(float(sys.argv[2]))
"""
WAITING = 90.0


class Desk:
    """Calls that are repeated with their key until the service has answered them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        key, deadline = {"idempotency-key": uuid4().hex}, time.monotonic() + WAITING
        while True:
            assert time.monotonic() < deadline, f"{path} was not answered"
            try:
                answer = await self.client.post(path, json=body, headers=key)
            except httpx.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.is_success:
                return answer.json()
            passing = answer.headers.get("retry-after") or answer.json()["code"] == "ConcurrencyError"
            assert answer.status_code in (409, 503) and passing, answer.text
            await asyncio.sleep(0.1)

    async def get(self, path: str) -> dict[str, Any]:
        return (await self.client.get(path)).raise_for_status().json()

    async def plan(self, folder: Path) -> str:
        """A plan whose method says how the program is launched: the trace and the time are parameters."""
        (folder / "program.py").write_text(PROGRAM)
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"trace": {"type": "string"}, "seconds": {"type": "string"}},
            "additionalProperties": False,
            "unevaluatedProperties": False,
        }
        capability = await self.post(
            "/capabilities",
            code=f"beamwright.capability.{uuid4().hex}",
            name="Work",
            required_affordances=[],
            executor_shapes=["METHOD"],
            parameters_schema=schema,
        )
        method = await self.post(
            "/methods",
            name="Work",
            capability_id=capability["capability_id"],
            execution_pattern="Batch",
            parameters_schema=schema,
        )
        args = [{"name": name, "position": place} for place, name in enumerate(("trace", "seconds"))]
        spec = {"base_command": [sys.executable, str(folder / "program.py")], "args": args}
        await self.post(f"/methods/{method['method_id']}/update-launch-spec", launch_spec=spec)
        practice = await self.post(
            "/practices", name="Work", method_id=method["method_id"], facility_code="home"
        )
        unit = await self.post("/assets", name="Unit", tier="Unit", facility_code="home")
        family = [str(wellknown.seeded_family(4))]
        device = await self.post(
            "/assets", name="Device", tier="Device", parent_id=unit["asset_id"], family_ids=family
        )
        await self.post(f"/assets/{device['asset_id']}/activate")
        made = await self.post(
            "/plans", name="Plan", practice_id=practice["practice_id"], asset_ids=[device["asset_id"]]
        )
        return made["plan_id"]

    async def job(self, plan: str, trace: Path, seconds: float) -> str:
        given = {"trace": str(trace), "seconds": f"{seconds:.2f}"}
        run = await self.post("/runs", name="Run", plan_id=plan, override_parameters=given)
        await self.post(f"/runs/{run['run_id']}/conduct")
        return run["run_id"]


async def scenario(service: Served, folder: Path) -> None:
    seed, dice = seeded()
    print("seed", seed)
    async with service.client() as client:
        await ready(client)
        desk = Desk(client)
        plan = await desk.plan(folder)
        traces = [folder / str(number) for number in range(JOBS)]
        jobs = [
            asyncio.create_task(desk.job(plan, trace, dice.uniform(0, sized(short=2.0, long=30.0))))
            for trace in traces
        ]
        for _ in range(KILLS):
            await asyncio.sleep(dice.uniform(0.2, 1.5))
            service.kill()
            service.start()
            await ready(client)
        runs = await asyncio.gather(*jobs)
        ended = [await over(desk, run) for run in runs]
    assert {run["status"] for run in ended} == {"Completed"}, seed
    assert [trace.read_text() for trace in traces] == ["once\n"] * JOBS, seed
    record("killed with jobs", seed=seed, jobs=JOBS, kills=KILLS, executions=len(traces))


async def over(desk: Desk, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAITING
    while True:
        run = await desk.get(f"/runs/{run_id}")
        if run["ended_at"] is not None:
            return run
        assert time.monotonic() < deadline, run
        await asyncio.sleep(0.1)


def test_every_job_runs_once_and_ends_its_run_however_often_the_service_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    allowed = {"COMPUTE_ALLOWED_COMMANDS": json.dumps([sys.executable])}
    with served({"DATABASE_URL": cluster.database()} | allowed) as service:
        asyncio.run(scenario(service, tmp_path))
