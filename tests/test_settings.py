"""Settings come from the environment, are typed, and refuse what would leave the service open."""

from datetime import timedelta
from pathlib import Path

import pytest

from beamwright.settings import UnsafeSettingsError, read_settings

PROVIDER = '[{"issuer": "https://id.example.org", "jwks_url": "https://id.example.org/keys"}]'
PRODUCTION = {
    "APP_ENV": "production",
    "BUILT_IN_ISSUER_ENABLED": "false",
    "IDENTITY_PROVIDERS": PROVIDER,
    "PUBLIC_BASE_URL": "https://beamline.example.org",
}


def test_defaults_are_secure_and_local() -> None:
    settings = read_settings({})
    assert (settings.host, settings.require_authenticated_principal) == ("127.0.0.1", True)
    assert settings.issuer_active and not settings.laptop


def test_the_environment_is_typed_and_arguments_win() -> None:
    settings = read_settings(
        {"PORT": "9000", "VISIT_PRESENCE_LIMIT": "PT2H", "DATA": "/x"}, port=9001, host=None
    )
    assert (settings.port, settings.data) == (9001, Path("/x"))
    assert settings.visit_presence_limit == timedelta(hours=2)


def test_what_may_be_run_is_a_list_and_nothing_by_default() -> None:
    assert read_settings({}).compute_allowed_commands == () and not read_settings({}).allow_raw_conduct
    settings = read_settings({"COMPUTE_ALLOWED_COMMANDS": '["tomopy", "/usr/bin/env"]'})
    assert settings.compute_allowed_commands == ("tomopy", "/usr/bin/env")


def test_keys_in_memory_are_for_tests() -> None:
    assert read_settings({}).secret_store == "sources"
    assert read_settings({"SECRET_STORE": "memory"}).secret_store == "memory"


@pytest.mark.parametrize("overlap", ["PT0S", "P7D", "P90D"])
def test_a_replaced_key_may_verify_for_up_to_ninety_days(overlap: str) -> None:
    assert read_settings({"FEDERATION_KEY_OVERLAP": overlap}).federation_key_overlap.days <= 90


def test_production_as_it_should_be_is_accepted() -> None:
    settings = read_settings(PRODUCTION)
    assert not settings.issuer_active and settings.identity_providers[0].issuer == "https://id.example.org"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"BUILT_IN_ISSUER_ENABLED": "true"}, "BUILT_IN_ISSUER_ENABLED"),
        ({"REQUIRE_AUTHENTICATED_PRINCIPAL": "false"}, "REQUIRE_AUTHENTICATED_PRINCIPAL"),
        ({"IDENTITY_PROVIDERS": "[]"}, "IDENTITY_PROVIDERS"),
        ({"IDENTITY_PROVIDERS": "nonsense"}, "IDENTITY_PROVIDERS"),
        ({"IDENTITY_PROVIDERS": PROVIDER.replace("https://id.example.org/keys", "http://x.org/k")}, "https"),
        ({"PUBLIC_BASE_URL": "http://beamline.example.org"}, "PUBLIC_BASE_URL"),
        ({"APP_ENV": "staging"}, "APP_ENV"),
        ({"PORT": "ninety"}, "PORT"),
        ({"SELF_FACILITY_CODE": "Not A Code"}, "SELF_FACILITY_CODE"),
        ({"AUTHORITY_POLL_SECONDS": "60"}, "AUTHORITY_POLL_SECONDS"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        ({"VISIT_PRESENCE_LIMIT": "PT1S"}, "VISIT_PRESENCE_LIMIT"),
        ({"FEDERATION_KEY_OVERLAP": "-PT1S"}, "FEDERATION_KEY_OVERLAP"),
        ({"FEDERATION_KEY_OVERLAP": "P91D"}, "FEDERATION_KEY_OVERLAP"),
        ({"SECRET_STORE": "memory"}, "SECRET_STORE"),
        ({"SECRET_STORE": "paper"}, "SECRET_STORE"),
        ({"SECRET_ENV_PREFIX": "x"}, "SECRET_ENV_PREFIX"),
        ({"VAULT_ADDR": "https://vault.example.org"}, "VAULT_TOKEN"),
        ({"VAULT_ADDR": "http://vault.example.org", "VAULT_TOKEN": "t"}, "https"),
        ({"COMPUTE_SUBSTRATE": "abacus"}, "COMPUTE_SUBSTRATE"),
        ({"COMPUTE_ALLOWED_COMMANDS": "python"}, "COMPUTE_ALLOWED_COMMANDS is not JSON"),
        ({"COMPUTE_ALLOWED_COMMANDS": '["bin/python"]'}, "absolute path"),
        ({"COMPUTE_URI_ROOTS": '["/data"]'}, "COMPUTE_URI_ROOTS"),
        ({"COMPUTE_URI_ROOTS": '["file:///data/../etc"]'}, "COMPUTE_URI_ROOTS"),
        ({"COMPUTE_PLACE": "a/b"}, "COMPUTE_PLACE"),
        ({"COMPUTE_TIME_LIMIT": "PT0S"}, "COMPUTE_TIME_LIMIT"),
    ],
)
def test_unsafe_or_unusable_settings_say_which_and_why(change: dict[str, str], says: str) -> None:
    with pytest.raises(UnsafeSettingsError, match=says):
        read_settings(PRODUCTION | change)


def test_a_laptop_listens_on_loopback_only() -> None:
    assert read_settings({"REQUIRE_AUTHENTICATED_PRINCIPAL": "false"}).laptop
    with pytest.raises(UnsafeSettingsError, match="laptop"):
        read_settings({"REQUIRE_AUTHENTICATED_PRINCIPAL": "false", "HOST": "0.0.0.0"})


@pytest.mark.parametrize(
    ("interval", "validity"), [("P4D", "P7D"), ("PT84H", "P7D"), ("PT0S", "P7D"), ("PT1H", "P400D")]
)
def test_a_seal_is_signed_at_least_twice_while_a_pointer_is_valid(interval: str, validity: str) -> None:
    with pytest.raises(UnsafeSettingsError, match="SEAL_"):
        read_settings({"SEAL_SIGN_INTERVAL": interval, "SEAL_VALIDITY": validity})


def test_an_interval_below_half_of_the_validity_is_accepted() -> None:
    settings = read_settings({"SEAL_SIGN_INTERVAL": "PT11H", "SEAL_VALIDITY": "P1D"})
    assert settings.seal_sign_interval == timedelta(hours=11)
    assert (read_settings({}).seal_validity, read_settings({}).seal_sign_interval) == (
        timedelta(days=7),
        timedelta(hours=1),
    )
