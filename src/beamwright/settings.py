"""Every setting: typed, documented, and read from the environment."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from beamwright.kernel.tokens import ProviderSettings, check_providers
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
    authority_poll_seconds: Annotated[
        float, Meta(description="How soon other processes see a change of authority.", ge=0.05, le=5)
    ] = 0.25
    verdict_retention_days: Annotated[
        int, Meta(description="How long authorization verdicts are kept.", ge=30, le=36500)
    ] = 400
    visit_presence_limit: Annotated[
        timedelta, Meta(description="ISO 8601; presence open longer than this is closed.")
    ] = timedelta(days=1)
    idempotency_retention_hours: Annotated[
        int, Meta(description="How long an idempotency key replays.", ge=1, le=8760)
    ] = 24
    max_body_bytes: Annotated[int, Meta(description="Largest request body.", ge=1024, le=1 << 30)] = 1 << 20
    request_body_seconds: Annotated[
        float, Meta(description="How long a client may take to send a body.", ge=0.1, le=600)
    ] = 10.0
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
    if "identity_providers" in values:
        values["identity_providers"] = _json(values["identity_providers"])
    values |= {name: value for name, value in given.items() if value is not None}
    hints = get_type_hints(Settings, include_extras=True)
    typed: dict[str, Any] = {}
    for name, value in values.items():
        try:
            typed[name] = Path(value) if name == "data" else msgspec.convert(value, hints[name], strict=False)
        except msgspec.ValidationError as error:
            raise UnsafeSettingsError(f"{name.upper()} is not usable: {error}") from None
    return checked(Settings(**typed))


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UnsafeSettingsError(f"IDENTITY_PROVIDERS is not JSON: {error}") from None


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
    try:
        check_providers(settings.identity_providers)
    except ValueError as error:
        raise UnsafeSettingsError(f"IDENTITY_PROVIDERS: {error}") from None
    return settings
