"""Isolation: what each read and command answers to whoever has no business with an object, for all of the registry."""

import time
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from beamwright.app import registry
from beamwright.kernel import wellknown
from beamwright.kernel.operation import Operation
from tests.acceptance.stage import OWN_VISITS, Stage, denial, done, facility, grant, refusal
from tests.acceptance.things import CAMERA, Things
from tests.live import HTTP_AUDIENCE, MCP_AUDIENCE
from tests.samples import minimal


class Belongs(Enum):
    """Whose the objects of an aggregate are."""

    TO_SOMEBODY = "not found outside its facility, its visits and its owner's reach"
    TO_ALL = "readable by whoever may read such objects at all"


# Every aggregate has a row: a new one must say whose its objects are.
TABLE = {
    "Actor": Belongs.TO_SOMEBODY,
    "Assembly": Belongs.TO_ALL,
    "Asset": Belongs.TO_SOMEBODY,
    "Calibration": Belongs.TO_SOMEBODY,
    "CalibrationQuantity": Belongs.TO_ALL,
    "Campaign": Belongs.TO_SOMEBODY,
    "Capability": Belongs.TO_ALL,
    "Clearance": Belongs.TO_SOMEBODY,
    "ClearanceTemplate": Belongs.TO_SOMEBODY,
    "Conduit": Belongs.TO_ALL,
    "Decision": Belongs.TO_SOMEBODY,
    "Enclosure": Belongs.TO_SOMEBODY,
    "Facility": Belongs.TO_ALL,
    "Family": Belongs.TO_ALL,
    "Fixture": Belongs.TO_SOMEBODY,
    "Frame": Belongs.TO_SOMEBODY,
    "Method": Belongs.TO_ALL,
    "Model": Belongs.TO_ALL,
    "Mount": Belongs.TO_SOMEBODY,
    "Plan": Belongs.TO_SOMEBODY,
    "Policy": Belongs.TO_ALL,
    "Practice": Belongs.TO_SOMEBODY,
    "Recipe": Belongs.TO_SOMEBODY,
    "Role": Belongs.TO_ALL,
    "Run": Belongs.TO_SOMEBODY,
    "Subject": Belongs.TO_SOMEBODY,
    "Supply": Belongs.TO_SOMEBODY,
    "Surface": Belongs.TO_ALL,
    "Visit": Belongs.TO_SOMEBODY,
    "Zone": Belongs.TO_ALL,
}

# Reads whose path names no object and that are not the list of their aggregate.
ABOUT_THE_CALLER = {"get_current_actor", "list_permissions"}
ACROSS = {
    "list_asset_drift",
    "list_calibration_revisions",
    "list_events",
    "list_identifier_requests",
    "list_presence",
    "list_supply_kinds",
}
# Reads that name what they are about in their fields.
NAMING = {
    "check_run_readiness": {"plan_id": "Plan"},
    "get_calibration_lookup": {"revision_id": "Revision"},
    "get_calibration_revision": {"revision_id": "Revision"},
    "get_calibration_revision_uses": {"revision_id": "Revision"},
    "get_clearance_coverage": {"plan_id": "Plan"},
    "get_current_calibration": {"target_id": "Asset"},
    "inspect_plan_binding": {"practice_id": "Practice"},
}
# Reads that name somebody beside their target.
ABOUT_ANOTHER = {"evaluate_policy", "evaluate_authorization"}

OPERATIONS = registry().operations
READS = sorted(name for name, operation in OPERATIONS.items() if operation.reads)
COMMANDS = sorted(name for name, operation in OPERATIONS.items() if not operation.reads)
ON_OBJECTS = [name for name in COMMANDS if OPERATIONS[name].target]
AIMED = [name for name in READS if OPERATIONS[name].target or name in ABOUT_ANOTHER]
LISTS = sorted({f"list_{aggregate.plural}" for aggregate in registry().aggregates.values()} & set(READS))
SOMEBODYS = sorted(name for name, whose in TABLE.items() if whose is Belongs.TO_SOMEBODY)


def belongs(operation: Operation) -> Belongs:
    """Whose the thing is that a call is about."""
    if operation.name in ABOUT_ANOTHER:
        return Belongs.TO_SOMEBODY
    return TABLE[operation.target or operation.aggregate]


class Scene:
    """One object of every aggregate, all of them other people's, and callers who have no business with them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner = stage.person()
        self.visit = stage.attended(self.owner)
        self.objects = {
            "Actor": self.owner.id,
            "Conduit": str(wellknown.CLIENTS_CONDUIT),
            "Facility": done(stage.admin.get("/federation/facilities", code="home"))["items"][0]["id"],
            "Policy": stage.policy(),
            "Surface": stage.surface(),
            "Visit": self.visit,
            "Zone": stage.zone(),
        }
        self.objects |= self.equipment(Things(stage))
        self.objects |= self.work(Things(stage), self.objects["Asset"])
        self.revision = self.revised(self.objects["Calibration"])
        citation = {"creators": [{"actor_id": self.owner.id}]}
        subject = f"/subjects/{self.objects['Subject']}/persistent-identifier/request"
        done(stage.admin.post(subject, **citation))
        self._wait_for_identifier(self.objects["Subject"])
        self.other_site = stage.site()
        self.visit_there = stage.visit(facility_code=self.other_site)
        self.nobody = stage.nobody()
        self.expired = self._with_token(stage.admin.subject, HTTP_AUDIENCE, age=timedelta(hours=2))
        self.misdirected = self._with_token(stage.admin.subject, MCP_AUDIENCE)
        self.stranger = stage.person("service_account")
        self.inactive = stage.administrator()
        self.outsider = stage.person("service_account")
        self.foreigner = stage.person("service_account")
        stage.policy(grant("*:*", scope=OWN_VISITS), to=self.outsider)
        stage.policy(grant("*:*", scope=facility(self.other_site)), to=self.foreigner)
        last = done(stage.admin.post(f"/actors/{self.inactive.id}/deactivate", reason="Departed"))
        self.head = last["as_of"]

    def equipment(self, things: Things) -> dict[str, str]:
        """A camera that can be cited, and what it is part of."""
        model, unit = things.model(CAMERA), things.unit()
        owners = [{"name": "Facility"}]
        asset = things.active(unit, CAMERA, model_id=model, owners=owners)
        mount, assembly = things.installed(asset), things.assembly(things.slot("camera"))
        return {
            "Assembly": assembly,
            "Asset": asset,
            "Enclosure": things.enclosure(),
            "Family": CAMERA,
            "Fixture": things.fixture(assembly, camera=asset),
            "Frame": things.frame(),
            "Model": model,
            "Mount": mount,
            "Role": things.role(),
            "Supply": things.supply(),
        }

    def work(self, things: Things, asset: str) -> dict[str, str]:
        """A run of a plan on that camera, and what it needs or may need."""
        capability = things.capability()
        method = things.method(capability)
        practice = things.practice(method)
        plan = things.plan(asset, practice_id=practice)
        return {
            "Calibration": things.calibration(asset),
            "CalibrationQuantity": str(wellknown.seeded_quantity(1)),
            "Campaign": things.campaign(),
            "Capability": capability,
            "Clearance": things.clearance(),
            "ClearanceTemplate": things.template(),
            "Decision": things.decision(),
            "Method": method,
            "Plan": plan,
            "Practice": practice,
            "Recipe": things.recipe(capability),
            "Run": things.run(plan),
            "Subject": things.subject(),
        }

    def _wait_for_identifier(self, subject: str) -> None:
        """The minter's event comes by itself, and must not come while a test counts."""
        deadline = time.monotonic() + 30
        while done(self.stage.admin.get(f"/subjects/{subject}"))["identifier_status"] != "Assigned":
            assert time.monotonic() < deadline, "no identifier was minted"
            time.sleep(0.1)

    def revised(self, calibration: str) -> str:
        path = f"/calibrations/{calibration}"
        value = {"value": {"offset": 1.5}, "source": {"kind": "Asserted"}}
        done(self.stage.admin.post(f"{path}/revisions/append", **value))
        return done(self.stage.admin.get(path))["revisions"][0]["revision_id"]

    def _with_token(self, subject: str, audience: str, age: timedelta = timedelta()) -> httpx.Client:
        server = self.stage.server
        token = server.issuer.mint(subject, (audience,), timedelta(hours=1), now=server.clock() - age)
        return self.stage.nobody(authorization=f"Bearer {token}")

    def call(self, client: httpx.Client, name: str) -> httpx.Response:
        """Call an operation on the object of its target; whoever else it names is another person."""
        operation = OPERATIONS[name]
        body = self.body(operation)
        path = operation.path
        for field in operation.path_fields:
            path = path.replace(f"{{{field}}}", str(body.pop(field)))
        if operation.in_address:
            return client.get(path, params=body)
        return client.post(path, json=body)

    def new_visit(self, **fields: Any) -> dict[str, Any]:
        surface = {"surface_id": str(wellknown.HTTP_SURFACE), "planned_end_at": "2030-01-01T00:00:00Z"}
        return minimal(OPERATIONS["register_visit"]) | surface | {"code": uuid4().hex} | fields

    def body(self, operation: Operation) -> dict[str, Any]:
        body = minimal(operation)
        for aggregate, id in self.objects.items():
            field = registry().aggregates[aggregate].id_field
            if field in body:
                body[field] = id
        if operation.reads and "version_tag" in body:
            body["version_tag"] = "initial"
        for field, named in NAMING.get(operation.name, {}).items():
            body[field] = self.revision if named == "Revision" else self.objects[named]
        if operation.name == "get_current_calibration":
            body["quantity"] = "encoder_offset"
        if operation.name == "inspect_plan_binding":
            body["asset_ids"] = [self.objects["Asset"]]
        if operation.name in ABOUT_ANOTHER:
            body |= {"principal_id": self.owner.id, "command_name": "hold_visit"}
        return body


@pytest.fixture(scope="module")
def scene(stage: Stage) -> Scene:
    return Scene(stage)


def missing(name: str) -> str:
    """The code of the refusal that says that a call's object is not found."""
    operation = OPERATIONS[name]
    target = "Actor" if name in ABOUT_ANOTHER else operation.target
    return registry().aggregates[target or operation.aggregate].missing.__name__


def test_every_aggregate_has_a_row_and_an_object(scene: Scene) -> None:
    assert set(TABLE) == set(scene.objects) == set(registry().aggregates)


def test_every_read_without_an_object_is_known() -> None:
    assert set(READS) - set(AIMED) - set(LISTS) == ABOUT_THE_CALLER | ACROSS | set(NAMING)


# Reads.


@pytest.mark.parametrize("name", READS)
def test_no_token_reads_nothing(scene: Scene, name: str) -> None:
    answer = scene.call(scene.nobody, name)
    assert answer.status_code == 401 and "error=" not in answer.headers["www-authenticate"]


@pytest.mark.parametrize("name", READS)
def test_an_expired_token_reads_nothing(scene: Scene, name: str) -> None:
    answer = scene.call(scene.expired, name)
    assert answer.status_code == 401 and 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("name", READS)
def test_a_token_for_another_surface_reads_nothing(scene: Scene, name: str) -> None:
    assert scene.call(scene.misdirected, name).status_code == 401


@pytest.mark.parametrize("name", READS)
def test_the_inactive_read_nothing(scene: Scene, name: str) -> None:
    assert denial(scene.call(scene.inactive.client, name)) == (403, "ActorInactive")


@pytest.mark.parametrize("name", READS)
def test_a_stranger_reads_nothing(scene: Scene, name: str) -> None:
    assert denial(scene.call(scene.stranger.client, name)) == (403, "NoGrant")


@pytest.mark.parametrize("name", AIMED)
def test_an_administrator_reads_everything(scene: Scene, name: str) -> None:
    assert scene.call(scene.stage.admin.client, name).status_code == 200


@pytest.mark.parametrize("who", ["outsider", "foreigner"])
@pytest.mark.parametrize("name", AIMED)
def test_a_reader_without_reach_finds_only_what_is_everybodys(scene: Scene, name: str, who: str) -> None:
    answer = scene.call(getattr(scene, who).client, name)
    if belongs(OPERATIONS[name]) is Belongs.TO_ALL:
        assert answer.status_code == 200, answer.text
    else:
        assert refusal(answer) == (404, missing(name))


@pytest.mark.parametrize("name", sorted(NAMING))
def test_what_a_read_names_is_within_reach_or_not_found(scene: Scene, name: str) -> None:
    assert scene.call(scene.stage.admin.client, name).status_code in (200, 409)
    for who in (scene.outsider, scene.foreigner):
        assert scene.call(who.client, name).status_code == 404


@pytest.mark.parametrize("name", LISTS)
def test_lists_leave_out_what_belongs_to_others(scene: Scene, name: str) -> None:
    read = OPERATIONS[name]
    page = done(scene.outsider.get(read.path, limit=200, consistent_with=scene.head))
    seen = {item["id"] for item in page["items"]}
    if belongs(read) is Belongs.TO_ALL:
        assert scene.objects[read.aggregate] in seen
    else:
        assert seen <= {scene.outsider.id} and page["next_cursor"] is None


def test_lists_show_a_facilitys_own_to_who_reaches_it(scene: Scene) -> None:
    page = done(scene.foreigner.get("/visits", consistent_with=scene.head))
    assert [item["id"] for item in page["items"]] == [scene.visit_there]


def test_presence_elsewhere_is_not_listed(scene: Scene) -> None:
    here = [entry["visit_id"] for entry in done(scene.stage.admin.get("/presence"))["items"]]
    assert here == [scene.visit]
    assert done(scene.outsider.get("/presence"))["items"] == []
    assert done(scene.foreigner.get("/presence"))["items"] == []


@pytest.mark.parametrize("name", SOMEBODYS)
def test_the_feed_is_silent_about_what_belongs_to_others(scene: Scene, name: str) -> None:
    page = done(scene.outsider.get("/events", stream_type=name, limit=200))
    assert {item["streamid"] for item in page["items"]} <= {scene.outsider.id}


@pytest.mark.parametrize("parameter", ["as_of_version", "as_of"])
def test_the_past_is_as_far_as_the_present(scene: Scene, parameter: str) -> None:
    value = "1" if parameter == "as_of_version" else scene.stage.server.clock().isoformat()
    answer = scene.outsider.get(f"/visits/{scene.visit}", **{parameter: value})
    assert refusal(answer) == (404, "VisitNotFoundError")


def test_what_is_out_of_reach_looks_like_what_does_not_exist(scene: Scene) -> None:
    hidden = scene.outsider.get(f"/visits/{scene.visit}").json()
    absent_id = str(UUID(int=UUID(scene.visit).int + 1))
    absent = scene.outsider.get(f"/visits/{absent_id}").json()
    assert hidden["detail"].replace(scene.visit, "") == absent["detail"].replace(absent_id, "")
    assert set(hidden) == set(absent) and set(hidden["context"]) == set(absent["context"])


# Commands.


@pytest.fixture
def unchanged(scene: Scene) -> Iterator[None]:
    """Nothing is appended while the test runs."""
    before = scene.stage.event_count()
    yield
    assert scene.stage.event_count() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_stranger_commands_nothing(scene: Scene, unchanged: None, name: str) -> None:
    assert denial(scene.call(scene.stranger.client, name)) == (403, "NoGrant")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_inactive_command_nothing(scene: Scene, unchanged: None, name: str) -> None:
    assert denial(scene.call(scene.inactive.client, name)) == (403, "ActorInactive")


@pytest.mark.parametrize("who", ["outsider", "foreigner"])
@pytest.mark.parametrize("name", ON_OBJECTS)
def test_a_command_without_reach_is_refused(scene: Scene, unchanged: None, name: str, who: str) -> None:
    """Where the object can be read the refusal says so; where not, there is no such object."""
    answer = scene.call(getattr(scene, who).client, name)
    if belongs(OPERATIONS[name]) is Belongs.TO_ALL:
        assert denial(answer) == (403, "OutOfReach")
    else:
        assert refusal(answer) == (404, missing(name))


def test_nothing_is_made_where_nothing_is_reached(scene: Scene, unchanged: None) -> None:
    here = scene.new_visit(facility_code="home")
    assert denial(scene.foreigner.post("/visits", **here)) == (403, "OutOfReach")


def test_what_is_reached_can_be_made(scene: Scene) -> None:
    there = scene.new_visit(facility_code=scene.other_site)
    assert scene.foreigner.post("/visits", **there).status_code == 201


def test_a_member_out_of_reach_is_not_found(scene: Scene, unchanged: None) -> None:
    path = f"/visits/{scene.visit_there}/members/add"
    answer = scene.foreigner.post(path, actor_id=scene.owner.id, role="Member")
    assert refusal(answer) == (404, "ActorNotFoundError")


@pytest.mark.parametrize(
    ("field", "code"), [("members", "ActorNotFoundError"), ("parent_id", "VisitNotFoundError")]
)
def test_a_reference_out_of_reach_is_not_found(scene: Scene, unchanged: None, field: str, code: str) -> None:
    value = {scene.owner.id: "Member"} if field == "members" else scene.visit
    body = scene.new_visit(facility_code=scene.other_site, **{field: value})
    assert refusal(scene.foreigner.post("/visits", **body)) == (404, code)
