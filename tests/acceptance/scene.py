"""One object of every aggregate, and callers who have no business with them, for tests over all of the registry."""

import time
from enum import Enum
from typing import Any
from uuid import uuid4

import httpx

from beamwright.app import registry
from beamwright.kernel import wellknown
from beamwright.kernel.operation import Operation
from tests.acceptance.exchange import Exchange, Issuer, made_key, public, receive
from tests.acceptance.stage import OWN_VISITS, Stage, done, facility, grant
from tests.acceptance.things import CAMERA, Things
from tests.samples import minimal


class Belongs(Enum):
    """Whose the objects of an aggregate are."""

    TO_SOMEBODY = "not found outside its facility, its visits and its owner's reach"
    TO_ALL = "readable by whoever may read such objects at all"


# Every aggregate has a row: a new one must say whose its objects are.
TABLE = {
    "Actor": Belongs.TO_SOMEBODY,
    "Artifact": Belongs.TO_SOMEBODY,
    "Assembly": Belongs.TO_ALL,
    "Asset": Belongs.TO_SOMEBODY,
    "Calibration": Belongs.TO_SOMEBODY,
    "CalibrationQuantity": Belongs.TO_ALL,
    "Campaign": Belongs.TO_SOMEBODY,
    "Capability": Belongs.TO_ALL,
    "Clearance": Belongs.TO_SOMEBODY,
    "ClearanceTemplate": Belongs.TO_SOMEBODY,
    "Conduit": Belongs.TO_ALL,
    "Credential": Belongs.TO_SOMEBODY,
    "Dataset": Belongs.TO_SOMEBODY,
    "Decision": Belongs.TO_SOMEBODY,
    "Enclosure": Belongs.TO_SOMEBODY,
    "Facility": Belongs.TO_ALL,
    "Family": Belongs.TO_ALL,
    "Fixture": Belongs.TO_SOMEBODY,
    "Frame": Belongs.TO_SOMEBODY,
    "Method": Belongs.TO_ALL,
    "Model": Belongs.TO_ALL,
    "Mount": Belongs.TO_SOMEBODY,
    "Permit": Belongs.TO_SOMEBODY,
    "Plan": Belongs.TO_SOMEBODY,
    "Policy": Belongs.TO_ALL,
    "Practice": Belongs.TO_SOMEBODY,
    "Procedure": Belongs.TO_SOMEBODY,
    "Recipe": Belongs.TO_SOMEBODY,
    "Role": Belongs.TO_ALL,
    "Run": Belongs.TO_SOMEBODY,
    # A Peer's; the own one is for all.
    "Seal": Belongs.TO_SOMEBODY,
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
        self.objects |= self.federation(Exchange(stage))
        self.revision = self.revised(self.objects["Calibration"])
        citation = {"creators": [{"actor_id": self.owner.id}]}
        subject = f"/subjects/{self.objects['Subject']}/persistent-identifier/request"
        done(stage.admin.post(subject, **citation))
        self._wait_for_identifier(self.objects["Subject"])
        self.other_site = stage.site()
        self.visit_there = stage.visit(facility_code=self.other_site)
        self.outsider = stage.person("service_account")
        self.foreigner = stage.person("service_account")
        stage.policy(grant("*:*", scope=OWN_VISITS), to=self.outsider)
        stage.policy(grant("*:*", scope=facility(self.other_site)), to=self.foreigner)
        self.head: str = done(stage.admin.post("/zones", name=uuid4().hex))["as_of"]

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
            "Dataset": things.dataset(),
            "Decision": things.decision(),
            "Method": method,
            "Plan": plan,
            "Practice": practice,
            "Procedure": things.procedure(),
            "Recipe": things.recipe(capability),
            "Run": things.run(plan),
            "Subject": things.subject(),
        }

    def federation(self, exchange: Exchange) -> dict[str, str]:
        """An artifact of a peer, and what speaks for it: no secret of ours is needed."""
        issuer = Issuer(exchange)
        online, root = public(made_key()), made_key()
        exchange.believe(issuer.id, online, root, exchange.key_statement(issuer.code, online, root))
        permit = issuer.permit(terms={"automatic": False})
        return {
            "Artifact": done(receive(exchange.admin, issuer.envelope()))["artifact_id"],
            "Credential": issuer.credential,
            "Permit": permit,
            "Seal": issuer.id,
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

    def call(self, client: httpx.Client, name: str, **headers: str) -> httpx.Response:
        """Call an operation on the object of its target; whoever else it names is another person."""
        operation = OPERATIONS[name]
        body = self.body(operation)
        path = operation.path
        for field in operation.path_fields:
            path = path.replace(f"{{{field}}}", str(body.pop(field)))
        if operation.in_address:
            return client.get(path, params=body, headers=headers)
        return client.post(path, json=body, headers=headers)

    def new_visit(self, **fields: Any) -> dict[str, Any]:
        surface = {"surface_id": str(wellknown.HTTP_SURFACE), "planned_end_at": "2030-01-01T00:00:00Z"}
        return minimal(OPERATIONS["register_visit"]) | surface | {"code": uuid4().hex} | fields

    def body(self, operation: Operation) -> dict[str, Any]:
        body = minimal(operation)
        for aggregate, id in self.objects.items():
            field = registry().aggregates[aggregate].id_field
            if field in body:
                body[field] = id
        if operation.target in self.objects:
            # A seal has the id of its facility, and so a field of the same name.
            body[operation.path_fields[0]] = self.objects[operation.target]
        if operation.reads and "version_tag" in body:
            body["version_tag"] = "initial"
        for field, named in NAMING.get(operation.name, {}).items():
            body[field] = self.revision if named == "Revision" else self.objects[named]
        if operation.name == "get_current_calibration":
            body["quantity"] = "encoder_offset"
        if operation.name == "inspect_plan_binding":
            body["asset_ids"] = [self.objects["Asset"]]
        if operation.name == "request_missing_asset_persistent_identifiers":
            body["facility_code"] = self.other_site
        if operation.name in ABOUT_ANOTHER:
            body |= {"principal_id": self.owner.id, "command_name": "hold_visit"}
        return body


def missing(name: str) -> str:
    """The code of the refusal that says that a call's object is not found."""
    operation = OPERATIONS[name]
    target = "Actor" if name in ABOUT_ANOTHER else operation.target
    return registry().aggregates[target or operation.aggregate].missing.__name__
