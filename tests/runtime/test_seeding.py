"""A start of a newer version on the database of an older one."""

import asyncio
from uuid import UUID

import pytest

from beamwright.app import App
from beamwright.contexts.trust import seeds
from beamwright.contexts.trust.policy import Policy, RevokePolicy, RevokePolicyGrant, policies
from beamwright.contexts.trust.ready_made import SeedPolicy, ready_made_policies
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.value import replace
from beamwright.runtime import seeding
from beamwright.settings import Settings
from tests.live import Cluster
from tests.runtime.test_projector import ADMINISTRATOR

NEW = "sign_seal_pointer"
# Observers, too, are given something that is new.
SEEN = "list_surfaces"


def older_policies(code: str) -> list[SeedPolicy]:
    """As they were before there was a seal to sign."""
    return [
        replace(
            policy,
            grants=tuple(
                replace(grant, patterns=tuple(text for text in grant.patterns if text not in (NEW, SEEN)))
                for grant in policy.grants
            ),
        )
        for policy in ready_made_policies(code)
    ]


def allowed(app: App) -> bool:
    """Whether the Scheduler may sign."""
    caller = Caller(principal_id=wellknown.SCHEDULER, kind="service_account")
    place = (wellknown.SERVICE_CONDUIT, wellknown.IN_PROCESS_SURFACE)
    return app.authority.current.authorize(caller, NEW, *place, app.clock()).allowed


async def version_of(app: App, policy_id: UUID) -> int:
    name = ("Policy", policy_id)
    return (await app.store.read([name]))[name].version


async def monitor(app: App) -> tuple[int, Policy]:
    name = ("Policy", wellknown.MONITOR_POLICY)
    stream = (await app.store.read([name]))[name]
    policy = policies.fold(policies.stream_decoder.decode(stream.events))
    assert policy is not None
    return stream.version, policy


def test_an_older_installation_gets_the_grants_that_are_new(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, settings = cluster.empty_database(), Settings(data=cluster.data)

    async def started() -> App:
        return await App.open(settings, dsn)

    async def run() -> None:
        with monkeypatch.context() as before:
            before.setattr(seeds, "ready_made_policies", older_policies)
            before.setattr(seeding, "ready_made_policies", older_policies)
            app = await started()
            assert not allowed(app) and (await monitor(app))[0] == 1
            revoke = RevokePolicy(policy_id=wellknown.OBSERVER_POLICY, reason="nobody observes here")
            await app.service.call(revoke, ADMINISTRATOR)
            await app.close()
        app = await started()
        assert allowed(app)
        version, policy = await monitor(app)
        assert await version_of(app, wellknown.OBSERVER_POLICY) == 2, "a revoked policy is left alone"
        [added] = [grant for grant in policy.grants.values() if NEW in grant.operations]
        assert (version, added.operations) == (2, frozenset({NEW}))
        await app.close()
        app = await started()
        assert (await monitor(app))[0] == 2, "it is added once"
        revoke = RevokePolicyGrant(policy_id=policy.id, grant_id=added.grant_id, reason="not here")
        await app.service.call(revoke, ADMINISTRATOR)
        await app.close()
        app = await started()
        assert not allowed(app), "what was revoked stays revoked"
        await app.close()

    asyncio.run(run())
