"""The commands on facility files as a person types them, against a served installation."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import typer
from click.testing import Result
from typer.testing import CliRunner

from beamwright.importing.calls import Calls
from beamwright.importing.checking import FacilitySource, read_source
from beamwright.importing.live import Live
from beamwright.importing.plan import Plan
from beamwright.importing.planning import make_plan
from beamwright.surfaces.calling import Client
from beamwright.surfaces.importing import exports, import_facility
from tests.live import LiveServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "micro-ct" / "facility.yaml"

app = typer.Typer()
app.command("import")(import_facility)
app.add_typer(exports, name="export")


def source(text: str) -> FacilitySource:
    return read_source(dedent(text).encode())


class Facility:
    """A facility file and the service that it is imported into."""

    def __init__(self, server: LiveServer, folder: Path) -> None:
        self.server = server
        self.code = f"site-{uuid4().hex[:12]}"
        self.file = folder / "facility.yaml"
        self.where = ["--url", server.url, "--token", server.token()]
        self.admin = server.client()

    def write(self, text: str) -> "Facility":
        """The file, with its facility's own code where it says CODE."""
        self.file.write_text(dedent(text).replace("CODE", self.code), encoding="utf-8")
        return self

    def replace(self, old: str, new: str) -> "Facility":
        text = self.file.read_text(encoding="utf-8")
        assert old in text
        self.file.write_text(text.replace(old, new, 1), encoding="utf-8")
        return self

    def run(self, *options: str) -> Result:
        return CliRunner().invoke(app, ["import", str(self.file), *self.where, *options])

    def imported(self) -> "Facility":
        result = self.run()
        assert result.exit_code == 0, result.output
        return self

    def dry_run(self) -> Result:
        return self.run("--dry-run")

    def export(self) -> Result:
        return CliRunner().invoke(app, ["export", "facility", "--facility", self.code, *self.where])

    @contextmanager
    def calls(self, kind: type[Calls] = Calls) -> Generator[Calls]:
        calls = kind(Client(self.server.url, self.server.token))
        try:
            yield calls
        finally:
            calls.close()

    def plan(self) -> Plan:
        with self.calls() as calls:
            return make_plan(read_source(self.file.read_bytes()), calls, "Import")

    def live(self) -> Live:
        with self.calls() as calls:
            return Live(calls, self.code)

    def assets(self) -> dict[str, dict[str, Any]]:
        """The facility's assets by name."""
        return {each["name"]: each for each in self.live().assets.values()}

    def event_count(self) -> int:
        return self.server.run(lambda app: app.database.fetch("SELECT count(*) FROM events"))[0][0]

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.admin.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()
