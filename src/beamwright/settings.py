"""Every setting: typed, documented, and read from the environment."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from beamwright.kernel.compute import NOWHERE
from beamwright.kernel.identifiers import PersistentIdentifierScheme
from beamwright.kernel.tokens import ProviderSettings, check_address, check_providers
from beamwright.kernel.value import Value


class UnsafeSettingsError(RuntimeError):
    """The settings contradict one another or would leave the service open; it does not start."""


class Settings(Value):
    """What an operator can set; each field is an environment variable of the same name in capitals."""

    data: Annotated[
        Path, Meta(description="Folder of the embedded database and of the built-in issuer's key.")
    ] = Path("data")
    database_url: Annotated[
        str | None, Meta(description="PostgreSQL to use instead of the embedded one (version 16 or later).")
    ] = None
    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(description="Port to listen on.", ge=0, le=65535)] = 8000
    processes: Annotated[int, Meta(description="How many serving processes.", ge=1, le=64)] = 1
    separate_worker: Annotated[
        bool,
        Meta(
            description="Whether background work is left to `beamwright worker`; else serving processes do it."
        ),
    ] = False
    app_env: Annotated[
        str, Meta(description="`development` or `production`; production refuses what is only for a laptop.")
    ] = "development"
    public_base_url: Annotated[
        str | None, Meta(description="How clients reach the service; default is the listening address.")
    ] = None
    require_authenticated_principal: Annotated[
        bool,
        Meta(description="False lets calls without a token in, on loopback only, as the local operator."),
    ] = True
    built_in_issuer_enabled: Annotated[
        bool, Meta(description="Lets `beamwright token` mint; refused in production.")
    ] = True
    identity_providers: Annotated[
        tuple[ProviderSettings, ...],
        Meta(
            description="JSON list of {issuer, jwks_url or introspection_url with client_id and client_secret, "
            "algorithms}."
        ),
    ] = ()
    self_facility_code: Annotated[
        str, Meta(description="Code of the own Site.", pattern="^[a-z0-9-]{1,32}$")
    ] = "home"
    seal_validity: Annotated[
        timedelta, Meta(description="ISO 8601; how long a signed pointer of the own seal may be believed.")
    ] = timedelta(days=7)
    seal_sign_interval: Annotated[
        timedelta,
        Meta(
            description="ISO 8601; how often a pointer is signed at least; less than half of SEAL_VALIDITY."
        ),
    ] = timedelta(hours=1)
    authority_poll_seconds: Annotated[
        float, Meta(description="How soon other processes see a change of authority.", ge=0.05, le=5)
    ] = 0.25
    verdict_retention_days: Annotated[
        int, Meta(description="How long authorization verdicts are kept.", ge=30, le=36500)
    ] = 400
    visit_presence_limit: Annotated[
        timedelta, Meta(description="ISO 8601; presence open longer than this is closed.")
    ] = timedelta(days=1)
    enclosure_observer: Annotated[
        bool, Meta(description="Whether this service watches the permit sources of enclosures.")
    ] = True
    enclosure_heartbeat: Annotated[
        timedelta, Meta(description="ISO 8601; how often a permit source is read besides its own reports.")
    ] = timedelta(seconds=10)
    enclosure_stale_after: Annotated[
        timedelta, Meta(description="ISO 8601; a permit that nobody confirmed for this long is no permit.")
    ] = timedelta(seconds=60)
    supply_observer: Annotated[
        bool, Meta(description="Whether this service watches the status sources of supplies.")
    ] = True
    supply_heartbeat: Annotated[
        timedelta, Meta(description="ISO 8601; how often a status source is read besides its own reports.")
    ] = timedelta(seconds=10)
    supply_stale_after: Annotated[
        timedelta, Meta(description="ISO 8601; a watched supply not heard for this long does not serve.")
    ] = timedelta(seconds=60)
    clearance_gate: Annotated[
        str,
        Meta(
            description="`bound`: work on what a clearance was ever bound to needs one in force; `required`: "
            "all work does; `off`: none does."
        ),
    ] = "bound"
    clearance_expirer_enabled: Annotated[
        bool, Meta(description="Whether clearances whose time is over are expired by this service.")
    ] = True
    clearance_expirer_tick: Annotated[
        timedelta, Meta(description="ISO 8601; how often it looks for them.")
    ] = timedelta(minutes=5)
    run_conductor: Annotated[
        bool,
        Meta(description="Whether this service has the compute jobs of runs run, and records their ends."),
    ] = True
    compute_substrate: Annotated[
        str, Meta(description="`local_process`, or `memory`, where jobs only seem to run.")
    ] = "local_process"
    compute_allowed_commands: Annotated[
        tuple[str, ...],
        Meta(
            description="JSON list of the programs that may be run, each as the first token says it; none by default."
        ),
    ] = ()
    compute_uri_roots: Annotated[
        tuple[str, ...],
        Meta(description="JSON list of the URIs below which jobs may read and write; none by default."),
    ] = ()
    compute_place: Annotated[
        str,
        Meta(
            description="Name of the place where jobs run, the same for every process that reserves or runs them "
            "there; by default the data folder has one of its own.",
            pattern="^[a-z0-9-]{0,32}$",
        ),
    ] = ""
    compute_time_limit: Annotated[
        timedelta, Meta(description="ISO 8601; a compute job that takes longer is killed.")
    ] = timedelta(days=1)
    allow_raw_conduct: Annotated[
        bool,
        Meta(
            description="Whether conduct_run takes a command where the method says none. It is recorded for ever: "
            "nothing personal or secret belongs into it."
        ),
    ] = False
    seed_starter_families: Annotated[
        bool, Meta(description="Whether the starter device families are defined at first start.")
    ] = True
    persistent_identifier_scheme: Annotated[
        PersistentIdentifierScheme, Meta(description="`DOI` or `Handle`, unless a request says otherwise.")
    ] = PersistentIdentifierScheme.DOI
    identifier_minter: Annotated[
        str, Meta(description="`stub`, `datacite` or `handle`: who gives out persistent identifiers.")
    ] = "stub"
    datacite_url: Annotated[str, Meta(description="Base URL of the DataCite REST API.")] = ""
    datacite_prefix: Annotated[str, Meta(description="DOI prefix given by DataCite.")] = ""
    datacite_user: Annotated[str, Meta(description="DataCite repository account.")] = ""
    datacite_password: Annotated[str, Meta(description="Its password.")] = ""
    handle_url: Annotated[str, Meta(description="Base URL of the Handle server's REST API.")] = ""
    handle_prefix: Annotated[str, Meta(description="Handle prefix.")] = ""
    handle_user: Annotated[str, Meta(description="Handle of the administrator, with its index.")] = ""
    handle_password: Annotated[str, Meta(description="Its secret key.")] = ""
    landing_page_template: Annotated[
        str,
        Meta(description="Page that an identifier leads to; holds {id}, may hold {base_url}, {resource}."),
    ] = "{base_url}/console/{resource}/{id}"
    facility_publisher: Annotated[
        str | None, Meta(description="Publisher named with identifiers; default is the facility's own name.")
    ] = None
    federation_key_overlap: Annotated[
        timedelta,
        Meta(description="ISO 8601; how long a replaced key still verifies what it has signed before."),
    ] = timedelta(days=7)
    artifact_max_age: Annotated[
        timedelta, Meta(description="ISO 8601; an artifact that was issued longer ago is not taken in.")
    ] = timedelta(days=30)
    secret_store: Annotated[
        str,
        Meta(
            description="`sources`: secrets are read where their references say; `memory`: keys that anybody can "
            "work out, for tests, refused in production."
        ),
    ] = "sources"  # noqa: S105 - the name of an adapter
    secret_env_prefix: Annotated[
        str,
        Meta(
            description="How the variables begin that an `env:` reference may name; no others are read.",
            pattern="^[A-Za-z_][A-Za-z0-9_]{3,99}$",
        ),
    ] = "BEAMWRIGHT_SECRET_"  # noqa: S105 - a prefix of names
    secrets_folder: Annotated[
        str,
        Meta(
            description="Folder that `file:` references lead into, by default `secrets` in the data folder; each "
            "file has mode 0600."
        ),
    ] = ""
    vault_addr: Annotated[str, Meta(description="Address of the HashiCorp Vault of `vault:` references.")] = (
        ""
    )
    vault_token: Annotated[str, Meta(description="Token that it knows this service by.")] = ""
    vault_mount: Annotated[str, Meta(description="Mount of its key-value engine, version 2.")] = "secret"
    vault_namespace: Annotated[str, Meta(description="Its namespace, if it has several.")] = ""
    idempotency_retention_hours: Annotated[
        int, Meta(description="How long an idempotency key replays.", ge=1, le=8760)
    ] = 24
    max_body_bytes: Annotated[int, Meta(description="Largest request body.", ge=1024, le=1 << 30)] = 1 << 20
    request_body_seconds: Annotated[
        float, Meta(description="How long a client may take to send a head, and then a body.", ge=0.1, le=600)
    ] = 10.0
    max_upload_bytes: Annotated[
        int, Meta(description="Largest body of those that carry data in bulk.", ge=1024, le=1 << 30)
    ] = 32 << 20
    upload_body_seconds: Annotated[
        float, Meta(description="How long a client may take to send such a body.", ge=0.1, le=3600)
    ] = 60.0
    max_concurrent_calls: Annotated[
        int,
        Meta(
            description="How many calls one process answers at once; more are told to come back.",
            ge=8,
            le=100_000,
        ),
    ] = 500
    database_pool_size: Annotated[
        int, Meta(description="Database connections of one process.", ge=2, le=100)
    ] = 8
    log_level: Annotated[str, Meta(description="debug, info, warning or error.")] = "info"

    @property
    def laptop(self) -> bool:
        return not self.require_authenticated_principal

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_base_url or f"http://{host}:{self.port}").rstrip("/")

    @property
    def issuer_active(self) -> bool:
        return self.built_in_issuer_enabled and self.app_env != "production"


def read_settings(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Settings from the environment, overridden by what was `given` and is not None."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {
        field: environment[field.upper()]
        for field in Settings.__struct_fields__
        if environment.get(field.upper(), "") != ""
    }
    values |= {name: _json(name, values[name]) for name in JSON_SETTINGS if name in values}
    values |= {name: value for name, value in given.items() if value is not None}
    hints = get_type_hints(Settings, include_extras=True)
    typed: dict[str, Any] = {}
    for name, value in values.items():
        try:
            typed[name] = Path(value) if name == "data" else msgspec.convert(value, hints[name], strict=False)
        except msgspec.ValidationError as error:
            raise UnsafeSettingsError(f"{name.upper()} is not usable: {error}") from None
    return checked(Settings(**typed))


JSON_SETTINGS = ("identity_providers", "compute_allowed_commands", "compute_uri_roots")


def _json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UnsafeSettingsError(f"{name.upper()} is not JSON: {error}") from None


LOOPBACK = ("127.0.0.1", "::1", "localhost")


def checked(settings: Settings) -> Settings:
    """Refuse combinations that are unsafe, and say why."""
    if settings.app_env not in ("development", "production"):
        raise UnsafeSettingsError("APP_ENV must be `development` or `production`.")
    production = settings.app_env == "production"
    if production and settings.built_in_issuer_enabled:
        raise UnsafeSettingsError(
            "BUILT_IN_ISSUER_ENABLED must be false in production: whoever reads the data folder could mint tokens."
        )
    if production and settings.laptop:
        raise UnsafeSettingsError("REQUIRE_AUTHENTICATED_PRINCIPAL must be true in production.")
    if settings.laptop and settings.host not in LOOPBACK:
        raise UnsafeSettingsError(
            f"REQUIRE_AUTHENTICATED_PRINCIPAL=false is for a laptop: listen on 127.0.0.1, not on {settings.host}."
        )
    if production and not settings.identity_providers:
        raise UnsafeSettingsError(
            "IDENTITY_PROVIDERS is empty, so nobody could call the service in production."
        )
    if production and not (settings.public_base_url or "").startswith("https://"):
        raise UnsafeSettingsError("PUBLIC_BASE_URL must be an https address in production.")
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise UnsafeSettingsError("LOG_LEVEL must be debug, info, warning or error.")
    if not timedelta(minutes=1) <= settings.visit_presence_limit <= timedelta(days=366):
        raise UnsafeSettingsError("VISIT_PRESENCE_LIMIT must lie between PT1M and P366D.")
    if settings.clearance_gate not in ("bound", "required", "off"):
        raise UnsafeSettingsError("CLEARANCE_GATE must be bound, required or off.")
    check_seal(settings)
    check_observers(settings)
    check_compute(settings)
    check_identifiers(settings)
    check_secrets(settings)
    try:
        check_providers(settings.identity_providers)
    except ValueError as error:
        raise UnsafeSettingsError(f"IDENTITY_PROVIDERS: {error}") from None
    return settings


def check_seal(settings: Settings) -> None:
    """One pointer that could not be signed must not make everything published look stale."""
    if not timedelta(seconds=1) <= settings.seal_sign_interval < settings.seal_validity / 2:
        raise UnsafeSettingsError(
            "SEAL_SIGN_INTERVAL must be at least PT1S and less than half of SEAL_VALIDITY."
        )
    if settings.seal_validity > timedelta(days=366):
        raise UnsafeSettingsError("SEAL_VALIDITY must not exceed P366D.")


def check_observers(settings: Settings) -> None:
    """A source that is read in time must never look stale."""
    for name in ("enclosure", "supply"):
        heartbeat: timedelta = getattr(settings, f"{name}_heartbeat")
        limit: timedelta = getattr(settings, f"{name}_stale_after")
        if heartbeat < timedelta(milliseconds=100) or limit < 3 * heartbeat:
            raise UnsafeSettingsError(
                f"{name.upper()}_STALE_AFTER must be at least three times {name.upper()}_HEARTBEAT, "
                "which is at least PT0.1S."
            )


def check_compute(settings: Settings) -> None:
    if settings.compute_substrate not in ("local_process", "memory"):
        raise UnsafeSettingsError("COMPUTE_SUBSTRATE must be local_process or memory.")
    if settings.compute_place == NOWHERE:
        raise UnsafeSettingsError(f"COMPUTE_PLACE cannot be {NOWHERE}: what is reserved there is never run.")
    for command in settings.compute_allowed_commands:
        # Relative to the job's folder, a job could bring its own.
        if not command or ("/" in command and not command.startswith("/")):
            raise UnsafeSettingsError(
                f"COMPUTE_ALLOWED_COMMANDS: {command!r} must be a name that PATH finds, or an absolute path."
            )
    for root in settings.compute_uri_roots:
        parts = urlsplit(root)
        if parts.scheme not in ("file", "s3", "https") or ".." in parts.path.split("/") or parts.query:
            raise UnsafeSettingsError(
                f"COMPUTE_URI_ROOTS: {root!r} must be a plain file, s3 or https address."
            )
    if not timedelta(seconds=1) <= settings.compute_time_limit <= timedelta(days=366):
        raise UnsafeSettingsError("COMPUTE_TIME_LIMIT must lie between PT1S and P366D.")


def check_secrets(settings: Settings) -> None:
    if not timedelta(0) <= settings.federation_key_overlap <= timedelta(days=90):
        raise UnsafeSettingsError("FEDERATION_KEY_OVERLAP must lie between PT0S and P90D.")
    if not timedelta(hours=1) <= settings.artifact_max_age <= timedelta(days=365):
        raise UnsafeSettingsError("ARTIFACT_MAX_AGE must lie between PT1H and P365D.")
    if settings.secret_store not in ("sources", "memory"):
        raise UnsafeSettingsError("SECRET_STORE must be sources or memory.")
    if settings.app_env == "production" and settings.secret_store == "memory":  # noqa: S105 - an adapter
        raise UnsafeSettingsError("SECRET_STORE=memory is for tests: anybody can work out its keys.")
    if not settings.vault_addr:
        return
    if not settings.vault_token or not settings.vault_mount.strip("/"):
        raise UnsafeSettingsError("VAULT_ADDR needs VAULT_TOKEN and VAULT_MOUNT.")
    try:
        check_address(settings.vault_addr)
    except ValueError as error:
        raise UnsafeSettingsError(f"VAULT_ADDR: {error}") from None


def check_identifiers(settings: Settings) -> None:
    if "{id}" not in settings.landing_page_template:
        raise UnsafeSettingsError("LANDING_PAGE_TEMPLATE must contain {id}.")
    try:
        settings.landing_page_template.format(base_url="", resource="", id="")
    except (KeyError, IndexError, ValueError):
        raise UnsafeSettingsError(
            "LANDING_PAGE_TEMPLATE may only hold {base_url}, {resource} and {id}."
        ) from None
    if settings.identifier_minter not in ("stub", "datacite", "handle"):
        raise UnsafeSettingsError("IDENTIFIER_MINTER must be stub, datacite or handle.")
    if settings.identifier_minter != "stub":
        names = [f"{settings.identifier_minter}_{part}" for part in ("url", "prefix", "user", "password")]
        missing = [name.upper() for name in names if not getattr(settings, name)]
        if missing:
            raise UnsafeSettingsError(f"IDENTIFIER_MINTER needs {', '.join(missing)}.")
        url: str = getattr(settings, f"{settings.identifier_minter}_url")
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise UnsafeSettingsError(
                f"{settings.identifier_minter.upper()}_URL must be an https address: it is sent a password."
            )
        gives = {"datacite": PersistentIdentifierScheme.DOI, "handle": PersistentIdentifierScheme.HANDLE}
        if settings.persistent_identifier_scheme is not gives[settings.identifier_minter]:
            raise UnsafeSettingsError(
                f"IDENTIFIER_MINTER={settings.identifier_minter} needs "
                f"PERSISTENT_IDENTIFIER_SCHEME={gives[settings.identifier_minter]}."
            )
