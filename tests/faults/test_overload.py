"""More calls than can be answered: the surplus is told to come back at once, and nothing grows."""

import asyncio
from collections import Counter
from uuid import uuid4

import asyncpg
import httpx

from tests.faults.form import record, sized
from tests.live import Cluster, LiveServer, serving

MOST = 16
CALLS = sized(short=200, long=2000)


async def define(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/zones", json={"name": uuid4().hex})


def check_shed(answer: httpx.Response) -> None:
    assert answer.json()["code"] in ("OverloadedError", "DatabaseUnavailableError"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1


def test_calls_beyond_the_bound_are_shed_and_the_others_are_answered(cluster: Cluster) -> None:
    async def check(server: LiveServer) -> None:
        headers = {"authorization": f"Bearer {server.token()}"}
        limits = httpx.Limits(max_connections=CALLS)
        options = {"base_url": server.url, "headers": headers, "limits": limits, "timeout": 60}
        async with httpx.AsyncClient(**options) as client:
            answers = await asyncio.gather(*(define(client) for _ in range(CALLS)))
            told = Counter(answer.status_code for answer in answers)
            assert set(told) <= {201, 503} and told[201] >= MOST, told
            for answer in answers:
                if answer.status_code == 503:
                    check_shed(answer)
            assert (await define(client)).status_code == 201, "it recovers by itself"
            record("overload", calls_at_once=CALLS, bound=MOST, answered=told[201], shed=told[503])

    with serving(cluster, max_concurrent_calls=MOST) as server:
        asyncio.run(check(server))


def test_a_database_that_hangs_fills_the_line_and_no_more(cluster: Cluster) -> None:
    """Somebody locks the log: what waits for it is bounded, probes are answered, and it ends with the lock."""

    async def check(server: LiveServer) -> None:
        headers = {"authorization": f"Bearer {server.token()}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
            blocker = await asyncpg.connect(server.dsn)
            await blocker.execute("BEGIN")
            await blocker.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            waiting = [asyncio.create_task(define(client)) for _ in range(MOST)]
            await asyncio.sleep(1.0)
            for _ in range(3 * MOST):
                shed = await define(client)
                assert (shed.status_code, shed.json()["code"]) == (503, "OverloadedError")
                assert shed.headers["retry-after"] == "1"
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/ready")).status_code == 503
            await blocker.execute("ROLLBACK")
            await blocker.close()
            assert {(await each).status_code for each in waiting} == {201}
            assert (await define(client)).status_code == 201

    with serving(cluster, max_concurrent_calls=MOST) as server:
        asyncio.run(check(server))
