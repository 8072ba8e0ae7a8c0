"""Composition root: the only place that knows which adapter fills which seam."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

import httpx
import structlog
import uuid_utils.compat
from litestar.types import ASGIApp

import beamwright.contexts
from beamwright.adapters.compute.registry import build_compute
from beamwright.adapters.control.registry import ControlAdapters
from beamwright.adapters.identifiers.agency import AgencyAccount
from beamwright.adapters.identifiers.registry import build_minter
from beamwright.adapters.peers.http import HttpPeers
from beamwright.adapters.postgres.backlog import PostgresBacklogs
from beamwright.adapters.postgres.bookmarks import PostgresBookmarks, PostgresLeases
from beamwright.adapters.postgres.contacts import PostgresContacts
from beamwright.adapters.postgres.database import Database
from beamwright.adapters.postgres.deliveries import PostgresDeliveries
from beamwright.adapters.postgres.entries import PostgresEntryTables
from beamwright.adapters.postgres.lists import PostgresLists
from beamwright.adapters.postgres.migrate import check_folder, migrate
from beamwright.adapters.postgres.observations import PostgresObservations
from beamwright.adapters.postgres.outbox import PostgresOutbox
from beamwright.adapters.postgres.positions import PostgresPositions
from beamwright.adapters.postgres.profiles import PostgresProfiles
from beamwright.adapters.postgres.store import PostgresEventStore
from beamwright.adapters.postgres.texts import PostgresTexts
from beamwright.adapters.postgres.verdicts import PostgresVerdictLog
from beamwright.adapters.secrets.memory import MemorySecrets
from beamwright.adapters.secrets.registry import SecretSources, build_secrets
from beamwright.adapters.secrets.signer import StoredKeySigner
from beamwright.adapters.secrets.vault import VaultAccount
from beamwright.adapters.tokens.builtin import BuiltInIssuer
from beamwright.adapters.tokens.registry import build
from beamwright.contexts.access.actor import actors
from beamwright.contexts.calibration.starter_quantities import starter_quantities
from beamwright.contexts.equipment.minting import IDENTIFIABLE
from beamwright.contexts.equipment.starter_catalogue import starter_commands
from beamwright.contexts.safety.clearance_template_definition import starter_templates
from beamwright.contexts.subject.minting import IDENTIFIABLE_SUBJECTS
from beamwright.contexts.trust.authorization import Snapshot
from beamwright.contexts.trust.conduit import Conduit
from beamwright.kernel.errors import UnavailableError
from beamwright.kernel.event import Event
from beamwright.kernel.identifiers import IdentifierMinter
from beamwright.kernel.operation import Installation
from beamwright.kernel.registry import Registry, discover
from beamwright.kernel.store import Mark
from beamwright.kernel.value import encode
from beamwright.kernel.wellknown import BUILT_IN_ISSUER, CATALOGUE_SEEDER
from beamwright.runtime.arrival import Arrival
from beamwright.runtime.authority import AuthorityKeeper
from beamwright.runtime.calibration_reactions import CALIBRATION_REACTIONS
from beamwright.runtime.catalogue import install
from beamwright.runtime.clearance_expirer import ClearanceExpirer
from beamwright.runtime.dataset_reactions import DATASET_REACTIONS
from beamwright.runtime.enclosure_observer import ENCLOSURES
from beamwright.runtime.federation_delivery import FederationDelivery
from beamwright.runtime.health import Health
from beamwright.runtime.identifiers import IdentifierMinting
from beamwright.runtime.listening import Timings
from beamwright.runtime.observer import Observer, Watch
from beamwright.runtime.projector import Projector
from beamwright.runtime.reactions import Reactions
from beamwright.runtime.readers import Readers
from beamwright.runtime.run_conducts import RunConductor
from beamwright.runtime.schedules import run_schedules
from beamwright.runtime.sealer import Sealer
from beamwright.runtime.seeding import seed_installation
from beamwright.runtime.service import Service
from beamwright.runtime.subject_reactions import SUBJECT_REACTIONS
from beamwright.runtime.supply_observer import SUPPLIES
from beamwright.runtime.upkeep import run_upkeep
from beamwright.runtime.verdicts import Verdicts
from beamwright.runtime.workers import Workers
from beamwright.settings import Settings
from beamwright.surfaces.feed import FeedSurface
from beamwright.surfaces.http import application
from beamwright.surfaces.mcp import McpSurface
from beamwright.surfaces.openapi import openapi
from beamwright.surfaces.rest import Rest

log = structlog.get_logger("beamwright")


@cache
def registry() -> Registry:
    """Every aggregate and operation of the service."""
    return discover(beamwright.contexts)


def now() -> datetime:
    return datetime.now(UTC)


def new_id() -> UUID:
    return uuid_utils.compat.uuid7()


class App:
    """One process of the service on one open database."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], datetime] = now) -> None:
        self.settings = settings
        self.database = database
        self.clock = clock
        self._workers = Workers()
        self.compute = build_compute(
            settings.compute_substrate,
            root=settings.data / "compute",
            allowed_commands=settings.compute_allowed_commands,
            uri_roots=settings.compute_uri_roots,
            place=settings.compute_place,
        )
        self.secrets = _secrets(settings)
        self.installation = _installation(settings, self.compute.place)
        self.holder = new_id()
        self._compose_stores()
        self._compose_service()
        self._compose_arrival()
        self._compose_readers()
        self._compose_agents()

    @classmethod
    async def open(
        cls,
        settings: Settings,
        dsn: str,
        clock: Callable[[], datetime] = now,
        *,
        folder: Path | None = None,
    ) -> "App":
        """Migrate, open and seed; after this every operation can be called. `folder` holds an embedded database."""
        if folder is not None:
            check_folder(folder)
        await migrate(dsn)
        database = await Database.open(dsn, size=settings.database_pool_size, folder=folder)
        app = cls(settings, database, clock)
        await seed_installation(app.service, builtin_issuer=settings.issuer_active)
        await app.install_catalogue(starter=settings.seed_starter_families)
        await app._keep_verdicts()
        await app.lists.refresh()
        app._warn()
        return app

    async def install_catalogue(self, *, starter: bool) -> Mapping[str, int]:
        """Define the seeded roles, families and quantities that are missing; how many of each were."""
        templates = starter_templates(self.settings.self_facility_code)
        seeds = [*starter_commands(starter), *starter_quantities(), *templates]
        return await install(self.service, CATALOGUE_SEEDER, seeds)

    async def close(self) -> None:
        """Stop everything; what an absent database keeps from being said there is left to the leases' end."""
        await self._workers.stop()
        await self.control.aclose()
        farewells = [
            self.projector.stop,
            self.minting.stop,
            self.reactions.stop,
            self.delivery.stop,
            self.expirer.stop,
            self.sealer.stop,
            self.run_conductor.stop,
            lambda: self.leases.release_all(self.holder),
            self.verdicts.flush,
        ]
        for farewell in farewells:
            try:
                await farewell()
            except UnavailableError as error:
                log.warning("stopped_without_database", reason=error.detail)
        await self.client.aclose()
        await self.secrets.aclose()
        await self.database.close()

    def _compose_stores(self) -> None:
        aggregates = list(registry().aggregates.values())
        self.store = PostgresEventStore(self.database)
        self.lists = PostgresLists(self.database, aggregates)
        self.bookmarks = PostgresBookmarks(self.database, aggregates)
        self.leases = PostgresLeases(self.database)
        self.profiles = PostgresProfiles(self.database, actors)
        self.verdict_log = PostgresVerdictLog(self.database)
        self.contacts = PostgresContacts(self.database)
        self.outbox = PostgresOutbox(self.database)
        self.deliveries = PostgresDeliveries(self.database)

    def _compose_service(self) -> None:
        self.authority = AuthorityKeeper(
            registry(),
            self.store,
            lambda states, epoch, before: Snapshot(
                states, registry().operations, self.installation, epoch, before
            ),
        )
        self.authority.listen(self._names_may_have_changed)
        self.verdicts = Verdicts(self.verdict_log, new_id, self._verdict_level)
        self.readers = Readers(self._list_marks)
        self.service = Service(
            registry(),
            store=self.store,
            lists=self.lists,
            profiles=self.profiles,
            authority=self.authority,
            verdicts=self.verdicts,
            readers=self.readers,
            contacts=self.contacts,
            texts=PostgresTexts(self.database),
            observations=PostgresObservations(self.database),
            entries=PostgresEntryTables(self.database),
            signer=StoredKeySigner(self.secrets),
            outbox=self.outbox,
            deliveries=self.deliveries,
            installation=self.installation,
            now=self.clock,
            new_id=new_id,
        )

    def _compose_arrival(self) -> None:
        self.client = httpx.AsyncClient(timeout=5.0)
        issuer = BuiltInIssuer(self.settings.data) if self.settings.issuer_active else None
        verifier = build(self.settings.identity_providers, issuer, self.client, self.clock)
        self.arrival = Arrival(
            verifier, self.authority, self.profiles, self.clock, laptop=self.settings.laptop
        )

    def _compose_readers(self) -> None:
        """What follows the log, and what watches over it."""
        self.projector = Projector(
            self.store, self.bookmarks, self.leases, self.readers, self.clock, self.holder, self.lists.refresh
        )
        self.control = ControlAdapters()
        self.observers = self._observers()
        self.health = Health(
            self.bookmarks,
            PostgresBacklogs(self.database),
            self.leases,
            self.verdicts,
            lambda: self.database.room.trouble,
            self.observers,
        )

    def _compose_agents(self) -> None:
        """What acts by itself, one process at a time."""
        service, leases, holder, settings = self.service, self.leases, self.holder, self.settings
        identifiable = (*IDENTIFIABLE, IDENTIFIABLE_SUBJECTS)
        self.minting = IdentifierMinting(
            service, self.outbox, _minter(settings), leases, holder, identifiable
        )
        self.peers = HttpPeers()
        self.delivery = FederationDelivery(service, self.deliveries, self.secrets, self.peers, leases, holder)
        positions = PostgresPositions(self.database)
        reactions = (*SUBJECT_REACTIONS, *CALIBRATION_REACTIONS, *DATASET_REACTIONS)
        self.reactions = Reactions(service, positions, leases, holder, reactions)
        self.expirer = ClearanceExpirer(service, leases, holder, settings.clearance_expirer_tick)
        self.sealer = Sealer(service, leases, holder, settings.seal_sign_interval)
        self.run_conductor = RunConductor(
            service, self.compute, positions, leases, holder, settings.compute_time_limit
        )

    def _observers(self) -> list[Observer]:
        settings = self.settings

        def observer(watch: Watch, heartbeat: timedelta) -> Observer:
            timings = Timings(heartbeat=heartbeat.total_seconds())
            return Observer(self.service, self.leases, self.holder, self.control.port, watch, timings)

        observers = (
            [observer(ENCLOSURES, settings.enclosure_heartbeat)] if settings.enclosure_observer else []
        )
        if settings.supply_observer:
            observers.append(observer(SUPPLIES, settings.supply_heartbeat))
        return observers

    def start_following(self) -> None:
        """What every process does for itself: it follows the authority, and writes its own verdicts."""
        self._workers.start("authority", lambda: self.authority.poll(self.settings.authority_poll_seconds))
        self._workers.start("verdicts", self.verdicts.run)

    def start_workers(self) -> None:
        """That, and the work that one process at a time does for all."""
        self.start_following()
        self._workers.start("projector", self.projector.run)
        self._workers.start("schedules", lambda: run_schedules(self.service, self.leases, self.holder))
        self._workers.start("identifier-minter", self.minting.run)
        self._workers.start("reactions", self.reactions.run)
        self._workers.start("federation-delivery", self.delivery.run)
        if self.settings.clearance_expirer_enabled:
            self._workers.start("clearance-expirer", self.expirer.run)
        self._workers.start("sealer", self.sealer.run)
        if self.settings.run_conductor:
            self._workers.start("run-conductor", self.run_conductor.run)
        for observer in self.observers:
            self._workers.start(observer.name, observer.run)
        self._workers.start(
            "upkeep", lambda: run_upkeep(self.leases, self.holder, [self._prune_answers, self._keep_verdicts])
        )

    def _names_may_have_changed(self, events: Sequence[Event]) -> None:
        if any(isinstance(event, actors.event_classes) for event in events):
            self.profiles.forget_names()

    def _verdict_level(self, conduit_id: UUID) -> str:
        conduit = self.authority.current.state("Conduit", conduit_id, Conduit)
        return conduit.verdict_level if conduit is not None else "All"

    async def _list_marks(self) -> dict[str, Mark]:
        return {bookmark.name: bookmark.mark for bookmark in await self.bookmarks.all() if bookmark.serving}

    async def _prune_answers(self) -> None:
        await self.database.execute(
            "DELETE FROM idempotency WHERE created_at < clock_timestamp() - make_interval(hours => $1)",
            self.settings.idempotency_retention_hours,
        )

    async def _keep_verdicts(self) -> None:
        retention = timedelta(days=self.settings.verdict_retention_days)
        await self.verdict_log.keep_months(self.clock(), retention)

    def _warn(self) -> None:
        if self.settings.allow_raw_conduct:
            log.warning(
                "raw_conduct_allowed", why="ALLOW_RAW_CONDUCT: commands are recorded as they are given"
            )
        if self.settings.laptop:
            log.warning("calls_without_token", why="REQUIRE_AUTHENTICATED_PRINCIPAL=false: loopback only")
        if not self.authority.current.administrators((), self.clock()):
            log.warning("no_administrator", why="no administrator has a login of a configured issuer")


def _secrets(settings: Settings) -> SecretSources | MemorySecrets:
    return build_secrets(
        settings.secret_store,
        environment_prefix=settings.secret_env_prefix,
        folder=Path(settings.secrets_folder) if settings.secrets_folder else settings.data / "secrets",
        vault=VaultAccount(
            url=settings.vault_addr,
            token=settings.vault_token,
            mount=settings.vault_mount,
            namespace=settings.vault_namespace,
        ),
    )


def _installation(settings: Settings, compute_place: str) -> Installation:
    """What operations may know of the settings."""
    return Installation(
        self_facility_code=settings.self_facility_code,
        issuers=frozenset(_issuers(settings)),
        laptop=settings.laptop,
        visit_presence_limit=settings.visit_presence_limit,
        federation_key_overlap=settings.federation_key_overlap,
        seal_validity=settings.seal_validity,
        artifact_max_age=settings.artifact_max_age,
        base_url=settings.base_url,
        enclosure_stale_after=settings.enclosure_stale_after,
        supply_stale_after=settings.supply_stale_after,
        persistent_identifier_scheme=settings.persistent_identifier_scheme,
        landing_page_template=settings.landing_page_template,
        facility_publisher=settings.facility_publisher,
        clearance_gate=settings.clearance_gate,
        allow_raw_conduct=settings.allow_raw_conduct,
        compute_place=compute_place,
    )


def _minter(settings: Settings) -> IdentifierMinter:
    return build_minter(
        settings.identifier_minter,
        datacite=AgencyAccount(
            url=settings.datacite_url,
            prefix=settings.datacite_prefix,
            user=settings.datacite_user,
            password=settings.datacite_password,
        ),
        handle=AgencyAccount(
            url=settings.handle_url,
            prefix=settings.handle_prefix,
            user=settings.handle_user,
            password=settings.handle_password,
        ),
    )


def _issuers(settings: Settings) -> list[str]:
    configured = [provider.issuer for provider in settings.identity_providers]
    return [*configured, BUILT_IN_ISSUER] if settings.issuer_active else configured


def http(app: App) -> ASGIApp:
    """The HTTP application of one process."""

    @cache
    def description() -> bytes:
        return encode(openapi(registry()))

    rest = Rest(app.service, app.arrival, app.settings)
    feed = FeedSurface(app.service, rest)
    mcp = McpSurface(app.service, app.arrival, app.settings)
    return application(registry(), rest, feed, mcp, app.health, app.settings, description)
