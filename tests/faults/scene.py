"""Objects to attack: one of every aggregate, none of them needed by anybody else, and requests that are in order."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

import httpx

from beamwright.kernel.operation import Operation
from beamwright.surfaces.mcp_server import DESTRUCTIVE
from beamwright.surfaces.router import Router
from tests.acceptance.stage import Person, Stage, done, grant
from tests.acceptance.test_isolation import Scene
from tests.acceptance.things import Things, number, schema
from tests.faults.attacked import Attacked
from tests.faults.places import OPERATIONS

# What only monitors may say, never a human.
OBSERVED = ("observe_enclosure_status", "observe_supply_status")
# What leaves its object in a state that refuses most other requests.
ENDING = DESTRUCTIVE | {
    "close",
    "complete",
    "deprecate",
    "fail",
    "hold",
    "reject",
    "return",
    "unassign",
    "unbind",
}
ROUTER = Router(OPERATIONS.values())
_FRESH = re.compile(r"[0-9a-f]{32}")


class Recorder(Person):
    """Remembers the body of each request that was granted, by the name of its operation."""

    def __init__(self, person: Person) -> None:
        super().__init__(person.id, person.subject, person.client)
        self.bodies: dict[str, dict[str, Any]] = {}

    def post(self, path: str, **body: Any) -> httpx.Response:
        answer = super().post(path, **body)
        if answer.is_success:
            self.bodies[ROUTER.find(path)[0]["POST"].name] = body
        return answer


class RecordingStage(Stage):
    """A stage whose administrator's requests can be sent again."""

    def __init__(self, service: Attacked) -> None:
        server: Any = service
        super().__init__(server)

    def __enter__(self) -> "RecordingStage":
        super().__enter__()
        self.admin = self.recorder = Recorder(self.admin)
        self.monitor = self.person("service_account")
        self.policy(grant(*OBSERVED), to=self.monitor)
        return self

    def subject(self, operation: Operation) -> str:
        """Whose token opens an operation."""
        return (self.monitor if operation.name in OBSERVED else self.admin).subject


class Target(Scene):
    """A scene that may be destroyed: what it shares with others in `Scene` is its own here."""

    def __init__(self, stage: RecordingStage) -> None:
        super().__init__(stage)
        self.bodies = stage.recorder.bodies
        things = Things(stage)
        zone = stage.zone()
        quantity = {
            "code": f"q{uuid4().hex}",
            "title": "Offset",
            "operating_point_schema": schema(axis={"type": "string"}),
            "value_schema": schema(offset=number("degree")),
        }
        self.objects |= {
            "CalibrationQuantity": things.made("/calibration-quantities", "quantity_id", **quantity),
            "Conduit": things.made(
                "/conduits", "conduit_id", name=uuid4().hex, source_zone_id=zone, target_zone_id=stage.zone()
            ),
            "Facility": done(
                stage.admin.post("/federation/facilities", code=uuid4().hex, display_name="Site", kind="Site")
            )["facility_id"],
            "Family": things.family(),
        }

    def request(self, operation: Operation) -> dict[str, Any]:
        """A request that is in order or nearly so: as it was once granted, with names of its own."""
        minimal = self.body(operation)
        granted = _renewed(self.bodies.get(operation.name, {}))
        return minimal | granted | {field: minimal[field] for field in operation.path_fields}


def in_order(names: Iterable[str]) -> list[str]:
    """Operations by name, those that end something last."""
    return sorted(names, key=lambda name: (name.partition("_")[0] in ENDING, name))


def _renewed(value: Any) -> Any:
    match value:
        case str():
            return _FRESH.sub(lambda _: uuid4().hex, value)
        case Mapping():
            # A facility's code is no name that must be new, but one that must be known.
            return {
                name: each if name.startswith("facility_code") else _renewed(each)
                for name, each in value.items()
            }
        case list() | tuple():
            return [_renewed(each) for each in value]
        case _:
            return value
