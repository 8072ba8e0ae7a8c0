"""The command line as a person uses it: real processes, a real service, a real database."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import asyncpg
import httpx
import pytest
from typer.testing import CliRunner

from beamwright.adapters.postgres.embedded import EmbeddedPostgres
from beamwright.app import registry
from beamwright.surfaces.calling import UsageError, operation, typed_options, wanted
from beamwright.surfaces.cli import app
from beamwright.surfaces.tailing import messages
from beamwright.surfaces.terminal import printable

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 120
BYTECODE = TemporaryDirectory(prefix="beamwright-bytecode-")
SETTINGS = ("DATA", "DATABASE_URL", "HOST", "PORT", "APP_ENV", "BEAMWRIGHT_URL", "BEAMWRIGHT_TOKEN")
PRODUCTION = {
    "APP_ENV": "production",
    "BUILT_IN_ISSUER_ENABLED": "false",
    "PUBLIC_BASE_URL": "https://beamwright.example",
    "IDENTITY_PROVIDERS": '[{"issuer":"https://login.example","jwks_url":"https://login.example/keys"}]',
}


def environment(**more: str) -> dict[str, str]:
    """Without the settings of whoever runs the tests; what was compiled for one command serves the next."""
    unwanted = {*SETTINGS, "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": BYTECODE.name, "NO_COLOR": "1"} | more


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "beamwright", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(**more), timeout=PATIENCE, check=False
    )


class Installation:
    """A data folder, a port, and the service that runs on them when told to."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.where = {"DATA": str(self.data), "PORT": str(self.port)}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> "Installation":
        command = [sys.executable, "-m", "beamwright", "serve", *options]
        log = (self.data.parent / "serve.log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stderr=log, env=environment(**self.where))
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def log(self) -> str:
        return (self.data.parent / "serve.log").read_text()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(*arguments, **self.where)

    def done(self, *arguments: str) -> str:
        """The output of a command that must succeed."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def define_zone(self) -> tuple[str, str]:
        """The id and the name of a new zone."""
        name = f"zone {uuid4().hex}"
        return json.loads(self.done("call", "define_zone", "--name", name))["zone_id"], name


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not tmp_path: the embedded server runs as another account, and pytest closes the parents of that one.
    with TemporaryDirectory(prefix="beamwright-cli-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def installation(folder: Path) -> Iterator[Installation]:
    installation = Installation(folder).start()
    yield installation
    if installation.process is not None:
        installation.stop()


@pytest.fixture
def stopped(installation: Installation) -> Iterator[Installation]:
    """The same installation while its service is stopped."""
    installation.define_zone()
    assert installation.stop() == 0
    yield installation
    installation.start()


def test_help_names_every_command() -> None:
    text = run("--help").stdout
    assert all(
        command in text for command in ("serve", "token", "status", "call", "events", "projections", "verify")
    )
    assert "serve-process" not in text


def test_no_arguments_show_help() -> None:
    assert "Usage: beamwright" in run().stdout


def test_output_that_is_no_terminal_has_no_colours(installation: Installation) -> None:
    plain = {"NO_COLOR": "", **installation.where}
    for arguments in (["--help"], ["status"], ["call", "--list"], ["projections", "list"]):
        assert "\x1b" not in run(*arguments, **plain).stdout


def test_token_is_exactly_one_line(folder: Path) -> None:
    result = run("token", "--data", str(folder / "new"))
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", result.stdout)
    assert (folder / "new" / "issuer.key").stat().st_mode & 0o777 == 0o600


def test_token_is_refused_in_production(folder: Path) -> None:
    result = run("token", "--data", str(folder / "never"), **PRODUCTION)
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr == "The built-in issuer is switched off here. Get a token from the identity provider.\n"
    )
    assert not (folder / "never").exists()


def test_token_is_refused_when_its_key_lies_open(folder: Path) -> None:
    run("token", "--data", str(folder / "open"))
    (folder / "open" / "issuer.key").chmod(0o644)
    result = run("token", "--data", str(folder / "open"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "open to other users" in result.stderr


def test_token_works_on_both_surfaces(installation: Installation) -> None:
    headers = {"authorization": f"Bearer {installation.done('token').strip()}"}
    assert httpx.get(f"{installation.url}/zones", headers=headers).status_code == 200
    assert httpx.get(f"{installation.url}/zones").status_code == 401


def test_token_for_another_actor_and_surface(installation: Installation) -> None:
    token = installation.done("token", "--audience", "urn:beamwright:mcp", "--hours", "0.5").strip()
    refused = installation.run("call", "list_zones", "--token", token)
    assert (refused.returncode, "RefusedTokenError" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"APP_ENV": "production"}, "BUILT_IN_ISSUER_ENABLED must be false in production"),
        ({"PORT": "no"}, "PORT is not usable"),
        ({"HOST": "192.0.2.1"}, "192.0.2.1 is not an address of this machine"),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, "The database cannot be used"),
    ],
)
def test_service_that_cannot_start_says_why(folder: Path, settings: dict[str, str], sentence: str) -> None:
    given = {"DATA": str(folder / "refused"), "PORT": "0"} | settings
    result = run("serve", **given)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_occupied_port_is_said_in_a_sentence(installation: Installation) -> None:
    result = run("serve", "--data", str(installation.data), "--port", str(installation.port))
    assert (result.returncode, result.stderr) == (
        2,
        f"Port {installation.port} of 127.0.0.1 is in use. Choose another with --port.\n",
    )


def test_data_folder_in_use_is_said_in_a_sentence(installation: Installation) -> None:
    result = run("serve", "--data", str(installation.data), "--port", "0")
    assert result.returncode == 2
    assert "is in use by another process" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_status_of_a_ready_service(installation: Installation) -> None:
    lines = installation.done("status", "--url", installation.url).splitlines()
    assert re.search(r"list zone +serves +0 events", "\n".join(lines))
    assert lines[-1] == "ready"


def test_status_of_no_service(folder: Path) -> None:
    result = run("status", "--url", "http://127.0.0.1:1", DATA=str(folder))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("No service answers at http://127.0.0.1:1: ")


def test_call_prints_the_answer_as_json(installation: Installation) -> None:
    zone_id, name = installation.define_zone()
    zone = json.loads(installation.done("call", "get_zone", "--zone-id", zone_id))
    assert (zone["name"], zone["version"]) == (name, 1)


def test_call_takes_snake_kebab_equals_and_json(installation: Installation) -> None:
    zone_id, name = installation.define_zone()
    given = json.dumps({"name": "not this", "description": None})
    update = ["call", "update-zone", f"--zone_id={zone_id}", "--name", f"{name}!", "--json", given]
    assert json.loads(installation.done(*update))["events"] == ["ZoneUpdated"]
    assert json.loads(installation.done("call", "get_zone", "--zone-id", zone_id))["name"] == f"{name}!"


def test_call_takes_a_list_by_repetition(installation: Installation) -> None:
    surface = ["call", "define_surface", "--name", uuid4().hex, "--audience", f"urn:{uuid4()}"]
    surface += ["--kind", "HTTP", "--conduit-id", "01900000-0000-7000-8000-00a000000501"]
    made = installation.run(
        *surface, "--controlled-operations", "update_zone", "--controlled-operations", "define_zone"
    )
    assert made.returncode == 0, made.stderr
    found = installation.done("call", "get_surface", "--surface-id", json.loads(made.stdout)["surface_id"])
    assert json.loads(found)["controlled_operations"] == ["define_zone", "update_zone"]


def test_a_filter_takes_several_values(installation: Installation) -> None:
    name = uuid4().hex
    made = installation.done("call", "register_campaign", "--name", name, "--intent", "Series")
    asked = ["call", "list_campaigns", "--consistent-with", json.loads(made)["as_of"], "--q", name]
    for statuses, count in ((["Planned"], 1), (["Active", "Planned"], 1), (["Active", "Held"], 0)):
        options = [part for status in statuses for part in ("--status", status)]
        assert len(json.loads(installation.done(*asked, *options))["items"]) == count, statuses


def test_call_with_an_idempotency_key_happens_once(installation: Installation) -> None:
    call = ["call", "define_zone", "--name", uuid4().hex, "--idempotency-key", uuid4().hex]
    assert installation.done(*call) == installation.done(*call)


def test_call_with_if_match_is_refused_when_the_object_moved_on(installation: Installation) -> None:
    zone_id, name = installation.define_zone()
    update = ["call", "update_zone", "--zone-id", zone_id, "--if-match", "1", "--name"]
    installation.done(*update, f"{name} 2")
    late = installation.run(*update, f"{name} 3")
    assert (late.returncode, "ConcurrencyError" in late.stderr) == (1, True)


def test_refused_call_ends_with_1_and_says_why(installation: Installation) -> None:
    _, name = installation.define_zone()
    refused = installation.run("call", "define_zone", "--name", name)
    assert (refused.returncode, refused.stdout) == (1, "")
    lines = refused.stderr.splitlines()
    assert lines[0] == "Another zone that is not retired has this name."
    assert lines[1] == f"“{name}” is taken already. Choose another."
    assert lines[2].startswith("ZoneNameTakenError, correlation id ")


def test_refused_call_names_each_fault(installation: Installation) -> None:
    login = json.dumps({"identities": [{"issuer": 1}]})
    refused = installation.run("call", "register_actor", "--name", "A", "--kind", "human", "--json", login)
    assert refused.returncode == 1
    assert "  $.identities[0].issuer: Expected `str`, got `int`" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["define_zon"], "There is no operation define_zon. Did you mean define_zone"),
        (["define_zone"], "define_zone needs --name.\n"),
        (["define_zone", "--nme", "x"], "define_zone has no field --nme. Did you mean --name?\n"),
        (["define_zone", "--name"], "--name needs a value.\n"),
        (["define_zone", "stray"], "“stray” belongs to no field; write --field value.\n"),
        (["get_zone", "--zone-id", "x"], "--zone-id: Invalid UUID.\n"),
        (["list_zones", "--json", "[]"], "--json must be a JSON object"),
    ],
)
def test_call_that_cannot_be_built_ends_with_2(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["call", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence)


def test_call_lists_every_operation_by_context() -> None:
    lines = CliRunner().invoke(app, ["call", "--list"]).stdout.splitlines()
    assert any(
        re.fullmatch(r" +define_zone +Define a zone of the networked world. *", line) for line in lines
    )
    contexts = [line.strip() for line in lines if re.fullmatch(r" \w+ *", line)]
    assert contexts == sorted(registry().contexts)


def test_call_shows_the_fields_of_an_operation() -> None:
    text = CliRunner().invoke(app, ["call", "register_actor", "--help"]).stdout
    assert "POST /actors" in text
    assert re.search(r"--name +text +required", text)
    assert re.search(r"--kind +agent \| human \| service_account +default human", text)


def test_minted_token_does_not_leave_the_machine(installation: Installation) -> None:
    """The key is at hand, but the address is not of this machine: the call goes out without a token."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        listener.listen()
        listener.settimeout(PATIENCE)
        address = f"http://127.0.0.2:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "beamwright", "call", "list_zones", "--url", address]
        with subprocess.Popen(
            command, env=environment(**installation.where), stderr=subprocess.PIPE
        ) as caller:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(65536)
            caller.wait(PATIENCE)
    assert request.startswith(b"GET /zones") and b"authorization" not in request.lower()


def test_events_are_printed_one_to_a_line(installation: Installation) -> None:
    zone_id, name = installation.define_zone()
    lines = installation.done("events", "tail", "--no-follow", "--type", "ZoneDefined").splitlines()
    time_, kind, subject, _, principal, payload = re.split(r" +", lines[-1], maxsplit=5)
    assert (kind, subject) == ("ZoneDefined", f"Zone/{zone_id}")
    assert principal == "01900000-0000-7000-8000-00a000000102"
    assert json.loads(payload) == {"name": name, "description": None}
    assert time_.endswith("Z")


def test_events_go_on_after_a_token(installation: Installation) -> None:
    read = ["events", "tail", "--no-follow", "--json"]
    token = json.loads(installation.done(*read).splitlines()[-1])["token"]
    assert installation.done(*read, "--after", token) == ""
    zone_id, _ = installation.define_zone()
    [line] = installation.done(*read, "--after", token).splitlines()
    assert json.loads(line)["streamid"] == zone_id


def test_followed_events_survive_a_restart_and_end_with_an_interrupt(installation: Installation) -> None:
    token = json.loads(installation.done("events", "tail", "--no-follow", "--json").splitlines()[-1])["token"]
    command = [sys.executable, "-m", "beamwright", "events", "tail", "--after", token, "--json"]
    with subprocess.Popen(
        command,
        env=environment(**installation.where),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has interrupts ignored, and so would it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as tail:
        assert tail.stdout
        before, _ = installation.define_zone()
        assert json.loads(tail.stdout.readline())["streamid"] == before
        installation.stop()
        installation.start()
        after, _ = installation.define_zone()
        assert json.loads(tail.stdout.readline())["streamid"] == after
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate(timeout=PATIENCE)
        assert tail.returncode == 0
    assert "rying again." in said and "Traceback" not in said


def test_refused_tail_ends_with_1(installation: Installation) -> None:
    for follow in ("--follow", "--no-follow"):
        refused = installation.run("events", "tail", follow, "--token", "no.such.token")
        assert (refused.returncode, "RefusedTokenError" in refused.stderr) == (1, True)


def test_reader_that_goes_away_is_no_error(installation: Installation) -> None:
    command = f"{sys.executable} -m beamwright events tail | head -1"
    result = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        env=environment(**installation.where),
        timeout=PATIENCE,
    )
    assert len(result.stdout.splitlines()) == 1
    assert "Traceback" not in result.stderr


def test_killed_service_starts_again_with_all_it_recorded(installation: Installation) -> None:
    zone_id, name = installation.define_zone()
    assert installation.stop(signal.SIGKILL) == -signal.SIGKILL
    installation.start()
    assert json.loads(installation.done("call", "get_zone", "--zone-id", zone_id))["name"] == name


def test_several_processes_serve_and_go_with_their_parent(folder: Path) -> None:
    (folder / "many").mkdir()
    many = Installation(folder / "many").start("--processes", "2")
    many.define_zone()
    many.stop(signal.SIGKILL)
    wait_until_free(many.port)
    assert many.start("--processes", "2").stop() == 0


def wait_until_free(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"somebody still listens on {port}")


def generation(installation: Installation, name: str) -> int:
    [version] = re.findall(rf"^ {name} +\w+_(\d+) +serves", installation.done("projections", "list"), re.M)
    return int(version)


def test_list_is_rebuilt_while_it_serves(installation: Installation) -> None:
    zone_id, _ = installation.define_zone()
    before = generation(installation, "zone")
    assert installation.done("projections", "rebuild", "zone") == "Rebuilt zone.\n"
    assert generation(installation, "zone") == before + 1
    assert zone_id in installation.done("call", "list_zones", "--limit", "1")


def test_unknown_list_is_not_rebuilt(installation: Installation) -> None:
    result = installation.run("projections", "rebuild", "castle")
    assert (result.returncode, result.stderr.startswith("There is no list castle; there are ")) == (2, True)


def test_rebuild_needs_one_name_or_all(installation: Installation) -> None:
    for arguments in ([], ["zone", "--all"]):
        assert installation.run("projections", "rebuild", *arguments).returncode == 2


def test_verify_finds_nothing_while_the_service_runs(installation: Installation) -> None:
    installation.define_zone()
    output = installation.done("verify")
    assert output.splitlines()[-1] == "All of it agrees."
    assert len(re.findall(r" 0 *$", output, re.M)) == 9


def test_database_that_is_not_there(folder: Path) -> None:
    (folder / "empty").mkdir()
    for arguments in (["verify"], ["projections", "list"], ["projections", "rebuild", "--all"]):
        result = run(*arguments, "--data", str(folder / "empty"))
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"There is no database in {folder / 'empty'}.")
    assert not any((folder / "empty").iterdir())


def test_database_url_is_used_instead_of_the_data_folder(installation: Installation, dsn: str) -> None:
    assert "All of it agrees." in run("verify", "--database-url", dsn).stdout


def test_database_without_schema_is_refused(cluster: object, dsn: str) -> None:
    empty = dsn.replace(dsn.partition("@/")[2].partition("?")[0], "template1")
    result = run("verify", "--database-url", empty)
    assert (result.returncode, result.stderr) == (
        2,
        "This database is not Beamwright's yet. Start the service once.\n",
    )


def test_stopped_installation_is_verified_and_left_stopped(stopped: Installation) -> None:
    assert "All of it agrees." in stopped.done("verify")
    assert not (stopped.data / "postgres" / "postmaster.pid").exists()


def test_stopped_installation_is_rebuilt_by_the_command(stopped: Installation) -> None:
    before = generation(stopped, "visit")
    assert stopped.done("projections", "rebuild", "--all") == "Rebuilt every list.\n"
    assert generation(stopped, "visit") == before + 1
    assert "All of it agrees." in stopped.done("verify")


def test_verify_names_what_was_damaged(stopped: Installation) -> None:
    claim, row = asyncio.run(damage(stopped.data))
    result = stopped.run("verify")
    assert result.returncode == 1
    assert f"Zone/{row}: list zone: at version 1 differs in f_status" in result.stdout
    assert "zone-name “attic” is held by a stream that does not exist" in result.stdout
    assert f"Zone/{claim}: zone-name “clients” is claimed and not held" in result.stdout
    assert result.stdout.splitlines()[-1] == "The store does not agree with its log."
    asyncio.run(damage(stopped.data, repair=True))
    assert "All of it agrees." in stopped.done("verify")


async def damage(data: Path, *, repair: bool = False) -> tuple[str, str]:
    """Take a claim away, leave one behind, and alter a row of a list; or undo it."""
    server = EmbeddedPostgres(data)
    connection = await asyncpg.connect(server.start())
    try:
        row = await connection.fetchrow("SELECT version FROM projections WHERE name = 'zone'")
        assert row is not None
        zones = f"lists.zone_{row['version']}"
        claims = [
            "INSERT INTO claims SELECT 'zone-name', 'clients', 'Zone', id FROM {} WHERE s_name = 'Clients'",
            "DELETE FROM claims WHERE key = 'attic'",
        ]
        if not repair:
            claims = [
                "DELETE FROM claims WHERE kind = 'zone-name' AND key = 'clients'",
                "INSERT INTO claims VALUES ('zone-name', 'attic', 'Zone', gen_random_uuid())",
            ]
        for statement in claims:
            await connection.execute(statement.format(zones))
        status = "Active" if repair else "Retired"
        await connection.execute(f"UPDATE {zones} SET f_status = '{status}' WHERE s_name = 'Service'")
        ids = await connection.fetch(
            f"SELECT id FROM {zones} WHERE s_name IN ('Clients', 'Service') ORDER BY s_name"
        )
        return str(ids[0]["id"]), str(ids[1]["id"])
    finally:
        await connection.close()
        server.stop()


def test_switch_alone_is_true() -> None:
    listing = operation("list_surfaces")
    assert typed_options(listing, ["--held", "--limit", "3"]) == {"held": ["true"], "limit": ["3"]}
    assert wanted(listing, {"held": ["true"], "limit": ["3"]}, {}).query == {"held": "true", "limit": "3"}


def test_value_may_look_like_an_option_after_an_equals_sign() -> None:
    assert typed_options(operation("define_zone"), ["--name=--x"]) == {"name": ["--x"]}


def test_object_that_does_not_fit_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match=r"--grant: .*effect"):
        wanted(operation("add_grant"), {"policy_id": [str(uuid4())], "grant": ['{"effect": "Maybe"}']}, {})


def test_objects_are_taken_one_by_one_or_as_a_list() -> None:
    hazards = [{"scheme": "GHS", "code": "H228"}, {"scheme": "GHS", "code": "H302"}]
    for texts in ([json.dumps(hazards)], [json.dumps(each) for each in hazards]):
        asked = wanted(operation("register_subject"), {"name": ["S"], "hazards": texts}, {})
        assert json.loads(asked.body or b"")["hazards"] == hazards
    one = wanted(operation("register_subject"), {"name": ["S"], "hazards": [json.dumps(hazards[0])]}, {})
    assert json.loads(one.body or b"")["hazards"] == hazards[:1]
    with pytest.raises(UsageError, match=r"--hazards: Expected `str`, got `int` - at `\$\[0\].code`"):
        wanted(
            operation("register_subject"), {"name": ["S"], "hazards": ['{"scheme": "GHS", "code": 7}']}, {}
        )


def test_path_fields_are_quoted() -> None:
    found = wanted(operation("get_zone"), {"zone_id": [str(uuid4()).upper()]}, {})
    assert re.fullmatch(r"/zones/[0-9a-f-]{36}", found.path)


def test_comments_and_unfinished_messages_are_left_out() -> None:
    lines = ["retry: 1000", "", ": still here", "", "id: 1", "event: x", "data: {}", "", "data: half"]
    assert [tuple(message) for message in messages(lines)] == [("x", "{}")]


def test_foreign_text_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\x9bc\nd “é”") == "a\\x1b[31mb\\x9bc\nd “é”"
