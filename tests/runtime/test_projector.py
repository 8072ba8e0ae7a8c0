"""Read models: fed in order, parked when they fail, rebuilt beside the old ones, and never ahead of the log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from beamwright.adapters.postgres.list_tables import ListProjection
from beamwright.app import App
from beamwright.contexts.trust.zone import DefineZone, UpdateZone
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.errors import ReadModelBehindError
from beamwright.kernel.store import Mark, Stored
from beamwright.runtime.call import Call
from beamwright.settings import Settings
from tests.live import Cluster

ADMINISTRATOR = Call(
    caller=Caller(principal_id=wellknown.ADMINISTRATOR, kind="human"),
    surface_id=wellknown.HTTP_SURFACE,
    conduit_id=wellknown.CLIENTS_CONDUIT,
    correlation_id="test",
)


def with_app(cluster: Cluster, dsn: str, check: Callable[[App], Awaitable[None]]) -> None:
    async def run() -> None:
        app = await App.open(Settings(data=cluster.data), dsn)
        try:
            await app.projector.prepare()
            await check(app)
        finally:
            await app.close()

    asyncio.run(run())


async def define(app: App, **more: Any) -> Any:
    return (await app.service.call(DefineZone(name=uuid4().hex, **more), ADMINISTRATOR)).body


async def drain(app: App) -> None:
    while await app.projector.catch_up():
        pass


async def listed(app: App) -> dict[Any, Any]:
    request = app.service.registry.operations["list_zones"].request(limit=200)
    page = (await app.service.call(request, ADMINISTRATOR)).body
    return {item.id: item for item in page.items}


def test_a_list_shows_the_fold_of_every_stream(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        made = [await define(app) for _ in range(5)]
        await app.service.call(UpdateZone(zone_id=made[0].zone_id, description="x"), ADMINISTRATOR)
        await drain(app)
        await app.service.call(UpdateZone(zone_id=made[0].zone_id, description="y"), ADMINISTRATOR)
        await drain(app)
        rows = await listed(app)
        assert (rows[made[0].zone_id].description, rows[made[0].zone_id].version) == ("y", 3)
        assert {each.zone_id for each in made} <= set(rows)

    with_app(cluster, dsn, check)


def test_consistent_with_waits_and_gives_up(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        made = await define(app)
        app.readers._patience = 0.1
        request = app.service.registry.operations["list_zones"].request(consistent_with=made.as_of)
        with pytest.raises(ReadModelBehindError):
            await app.service.call(request, ADMINISTRATOR)
        await drain(app)
        page = (await app.service.call(request, ADMINISTRATOR)).body
        assert page.items[0].id == made.zone_id and Mark.parse(page.as_of) >= Mark.parse(made.as_of)

    with_app(cluster, dsn, check)


def test_a_failing_list_is_parked_and_the_others_go_on(
    cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = ListProjection.apply

    async def broken(self: ListProjection, transaction: Any, events: Sequence[Stored]) -> None:
        if self.name == "zone":
            raise ValueError("a bug in the zones' list")
        await apply(self, transaction, events)

    async def check(app: App) -> None:
        before = {mark.name: mark.mark for mark in await app.bookmarks.all()}
        await define(app)
        monkeypatch.setattr(ListProjection, "apply", broken)
        await drain(app)
        marks = {mark.name: mark for mark in await app.bookmarks.all()}
        assert marks["zone"].mark == before["zone"] and marks["zone"].failures == 1
        assert "a bug in the zones' list" in str(marks["zone"].last_error)
        assert marks["visit"].mark > before["visit"]
        monkeypatch.setattr(ListProjection, "apply", apply)
        await app.projector.prepare()
        assert await app.projector.catch_up() == 0, "it waits out its back-off"
        async with app.database.connection() as connection:
            await connection.execute("UPDATE projections SET retry_at = NULL")
        await app.projector.prepare()
        await drain(app)
        [zone] = [mark for mark in await app.bookmarks.all() if mark.name == "zone"]
        assert (zone.failures, zone.last_error, zone.mark) == (0, None, marks["visit"].mark)

    with_app(cluster, dsn, check)


def test_a_rebuild_is_made_beside_and_swapped_while_serving(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        made = [await define(app) for _ in range(3)]
        await drain(app)
        before = await listed(app)
        version = await app.bookmarks.rebuild("zone")
        assert await listed(app) == before
        await app.projector.prepare()
        await drain(app)
        serving = {mark.name: mark.version for mark in await app.bookmarks.all() if mark.serving}
        assert serving["zone"] == version and version.endswith("_2")
        assert await listed(app) == before and len(before) >= len(made)
        tables = await app.database.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE 'zone_%'")
        assert [row[0] for row in tables] == [f"zone_{version}"]

    with_app(cluster, dsn, check)


def test_a_changed_fold_is_rebuilt_beside_the_old_list(
    cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(app: App) -> None:
        await define(app)
        await drain(app)

    async def second(app: App) -> None:
        await drain(app)
        versions = [mark.version for mark in await app.bookmarks.all() if mark.name == "zone"]
        assert len(versions) == 1
        assert len(await listed(app)) >= 3

    with_app(cluster, dsn, first)
    from beamwright.contexts.trust.zone import zones

    monkeypatch.setattr(zones, "fold_version", 2)
    with_app(cluster, dsn, second)


def test_when_all_lists_are_swapped_at_once_nobody_looks_for_the_old_ones(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        for name in [aggregate.snake for aggregate in app.service.registry.aggregates.values()]:
            await app.bookmarks.rebuild(name)
        await app.projector.prepare()
        made = await define(app)
        await drain(app)
        await drain(app)
        assert made.zone_id in await listed(app)
        assert {mark.version.partition("_")[2] for mark in await app.bookmarks.all() if mark.serving} == {"2"}

    with_app(cluster, dsn, check)


def test_only_one_process_feeds_the_lists(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        other, ours = uuid4(), uuid4()
        assert await app.leases.take("chore", ours, 30)
        assert not await app.leases.take("chore", other, 30)
        assert await app.leases.take("chore", ours, -1), "the holder renews"
        assert await app.leases.take("chore", other, 30), "an expired lease is taken over"
        await app.leases.release("chore", ours)
        assert not await app.leases.take("chore", ours, 30)

    with_app(cluster, dsn, check)


def test_a_stalled_reader_names_who_holds_it(cluster: Cluster, dsn: str) -> None:
    async def check(app: App) -> None:
        idle = await asyncpg.connect(dsn, server_settings={"application_name": "forgotten session"})
        transaction = idle.transaction()
        await transaction.start()
        await idle.execute("SELECT pg_current_xact_id()")
        await define(app)
        assert await app.projector.catch_up() == 0
        report = await app.health.report()
        zone = next(each for each in report.projections if each.name == "zone")
        assert zone.behind_events >= 1
        assert "forgotten session" in str(report.held_back_by)
        await transaction.rollback()
        await drain(app)
        assert (await app.health.report()).held_back_by is None
        await idle.close()

    with_app(cluster, dsn, check)
