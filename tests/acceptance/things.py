"""Things of a served installation, from equipment to clearances, made as a client makes them."""

from functools import cached_property
from typing import Any
from uuid import uuid4

from beamwright.kernel import wellknown
from tests.acceptance.stage import Person, Stage, done, grant

CAMERA = str(wellknown.seeded_family(4))
ROTARY_STAGE = str(wellknown.seeded_family(1))
LINEAR_STAGE = str(wellknown.seeded_family(2))
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
ORIGIN = {axis: 0 for kind in ("", "tolerance_") for axis in (f"{kind}{a}" for a in ("x", "y", "z"))} | {
    f"{kind}r{axis}": 0 for kind in ("", "tolerance_") for axis in ("x", "y", "z")
}


def schema(**properties: Any) -> dict[str, Any]:
    """A declared schema of these properties."""
    closed = {"additionalProperties": False, "unevaluatedProperties": False}
    return {"$schema": DRAFT_2020_12, "type": "object", "properties": properties} | closed


def number(code: str, **bounds: Any) -> dict[str, Any]:
    return {"type": "number", "unit": {"system": "udunits", "code": code}} | bounds


class Things:
    """One call for each kind of thing; whatever is not said is plausible."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.admin = stage.admin

    def made(self, path: str, id_field: str, **body: Any) -> str:
        return done(self.admin.post(path, **body))[id_field]

    def unit(self, **fields: Any) -> str:
        """A root asset."""
        return self.made(
            "/assets", "asset_id", **{"name": "Unit", "tier": "Unit", "facility_code": "home"} | fields
        )

    def asset(self, parent_id: str, **fields: Any) -> str:
        given = {"name": "Device", "tier": "Device", "parent_id": parent_id} | fields
        return self.made("/assets", "asset_id", **given)

    def active(self, parent_id: str, *family_ids: str, **fields: Any) -> str:
        """An asset in service."""
        asset = self.asset(parent_id, family_ids=family_ids or (CAMERA,), **fields)
        done(self.admin.post(f"/assets/{asset}/activate"))
        return asset

    def role(self, **fields: Any) -> str:
        given = {
            "name": uuid4().hex,
            "description": "Something.",
            "required_affordances": ["Imageable"],
        } | fields
        return self.made("/roles", "role_id", **given)

    def family(self, **fields: Any) -> str:
        return self.made(
            "/families", "family_id", **{"name": uuid4().hex, "affordances": ["Imageable"]} | fields
        )

    def model(self, *family_ids: str, **fields: Any) -> str:
        given = {
            "name": "Model",
            "manufacturer": {"name": "Maker"},
            "part_number": uuid4().hex,
            "declared_family_ids": family_ids or (CAMERA,),
        } | fields
        return self.made("/models", "model_id", **given)

    def frame(self, **fields: Any) -> str:
        return self.made("/frames", "frame_id", **{"name": "Hall", "facility_code": "home"} | fields)

    def placement(self, frame_id: str, **fields: Any) -> dict[str, Any]:
        return {"parent_frame_id": frame_id, "reference_surface": "MountingFace"} | ORIGIN | fields

    def mount(self, frame_id: str | None = None, **fields: Any) -> str:
        placement = self.placement(frame_id or self.frame())
        given = {"slot_code": uuid4().hex, "facility_code": "home", "placement": placement} | fields
        return self.made("/mounts", "mount_id", **given)

    def installed(self, asset_id: str) -> str:
        """The mount that the asset is now in."""
        mount = self.mount()
        done(self.admin.post(f"/mounts/{mount}/install", asset_id=asset_id))
        return mount

    def assembly(self, *slots: dict[str, Any], **fields: Any) -> str:
        return self.made(
            "/assemblies", "assembly_id", **{"name": "Station", "required_slots": slots} | fields
        )

    def slot(self, name: str, family_id: str = CAMERA, cardinality: str = "Exactly1") -> dict[str, Any]:
        return {"slot_name": name, "required_family_ids": [family_id], "cardinality": cardinality}

    def fixture(self, assembly_id: str, **bindings: str) -> str:
        bound = [{"slot_name": slot, "asset_id": asset} for slot, asset in bindings.items()]
        return self.made("/fixtures", "fixture_id", assembly_id=assembly_id, slot_asset_bindings=bound)

    def enclosure(self, **fields: Any) -> str:
        return self.made(
            "/enclosures", "enclosure_id", **{"name": uuid4().hex, "facility_code": "home"} | fields
        )

    def supply(self, **fields: Any) -> str:
        given = {"kind": "vacuum", "name": uuid4().hex, "facility_code": "home"} | fields
        return self.made("/supplies", "supply_id", **given)

    def capability(self, **fields: Any) -> str:
        given = {
            "code": f"beamwright.capability.{uuid4().hex}",
            "name": "Tomography",
            "required_affordances": ["Imageable"],
            "executor_shapes": ["METHOD", "PROCEDURE"],
        } | fields
        return self.made("/capabilities", "capability_id", **given)

    def method(self, capability_id: str | None = None, **fields: Any) -> str:
        given = {
            "name": "Step scan",
            "capability_id": capability_id or self.capability(),
            "execution_pattern": "Batch",
        } | fields
        return self.made("/methods", "method_id", **given)

    def practice(self, method_id: str | None = None, **fields: Any) -> str:
        given = {"name": "At home", "method_id": method_id or self.method(), "facility_code": "home"} | fields
        return self.made("/practices", "practice_id", **given)

    def plan(self, *asset_ids: str, practice_id: str | None = None, **fields: Any) -> str:
        """A plan on assets in service."""
        assets = asset_ids or (self.active(self.unit()),)
        given = {"name": "Plan", "practice_id": practice_id or self.practice(), "asset_ids": assets} | fields
        return self.made("/plans", "plan_id", **given)

    def run(self, plan_id: str | None = None, **fields: Any) -> str:
        return self.made("/runs", "run_id", **{"name": "Run", "plan_id": plan_id or self.plan()} | fields)

    def recipe(self, capability_id: str | None = None, **fields: Any) -> str:
        step = {"kind": "Setpoint", "address": "simulated://shutter:open", "value": True}
        given = {
            "name": "Recipe",
            "capability_id": capability_id or self.capability(),
            "steps": [step],
        } | fields
        return self.made("/recipes", "recipe_id", **given)

    def procedure(self, **fields: Any) -> str:
        return self.made("/procedures", "procedure_id", **{"name": "Home", "kind": "homing"} | fields)

    def campaign(self, **fields: Any) -> str:
        return self.made("/campaigns", "campaign_id", **{"name": "Series", "intent": "Series"} | fields)

    def subject(self, **fields: Any) -> str:
        return self.made("/subjects", "subject_id", **{"name": "Rock"} | fields)

    def calibration(self, target_id: str | None = None, **fields: Any) -> str:
        given = {
            "target_id": target_id or self.active(self.unit()),
            "quantity": "encoder_offset",
            "operating_point": {"axis_designation": uuid4().hex},
        } | fields
        return self.made("/calibrations", "calibration_id", **given)

    def dataset(self, **fields: Any) -> str:
        """A file of a kilobyte."""
        given = {
            "name": "Scan",
            "uri": f"https://store.example/{uuid4().hex}.h5",
            "checksum": {"algorithm": "sha256", "value": "0" * 64},
            "byte_size": 1024,
            "encoding": {"media_type": "application/x-hdf5"},
        } | fields
        return self.made("/datasets", "dataset_id", **given)

    def decision(self, **fields: Any) -> str:
        return self.made("/decisions", "decision_id", **{"context": "RunStop", "choice": "Stop"} | fields)

    def clearance(self, *bindings: dict[str, str], **fields: Any) -> str:
        """A draft on the seeded form."""
        bound = bindings or ({"kind": "Asset", "id": self.unit()},)
        given = {"template_id": str(wellknown.GENERAL_CLEARANCE_TEMPLATE), "title": "Work", "bindings": bound}
        return self.made("/clearances", "clearance_id", **given | fields)

    def template(self, **fields: Any) -> str:
        return self.made(
            "/clearance-templates", "template_id", **{"code": uuid4().hex, "title": "Form"} | fields
        )

    def cleared(self, *bindings: dict[str, str], **fields: Any) -> str:
        """A clearance that one person has taken all the way; it is in force."""
        clearance = self.clearance(*bindings, **fields)
        self.review(clearance)
        for move in ("approve", "activate"):
            done(self.admin.post(f"/clearances/{clearance}/{move}"))
        return clearance

    def review(self, clearance_id: str) -> None:
        """Submitted, and judged favourably."""
        path = f"/clearances/{clearance_id}"
        done(self.admin.post(f"{path}/submit"))
        done(self.admin.post(f"{path}/start-review"))
        done(self.admin.post(f"{path}/review-steps/append", role="safety", decision="Approved"))

    def revision(self, calibration_id: str, **fields: Any) -> str:
        """The id of a further revision of an encoder's offset."""
        given = {"value": {"offset": 0.5}, "source": {"kind": "Asserted"}} | fields
        return self.made(f"/calibrations/{calibration_id}/revisions/append", "revision_id", **given)

    @cached_property
    def monitor(self) -> Person:
        """An account that may report permits."""
        account = self.stage.person("service_account")
        self.stage.policy(grant("observe_enclosure_status"), to=account)
        return account

    def permit(self, enclosure_id: str, status: str = "Permitted") -> None:
        done(self.monitor.post(f"/enclosures/{enclosure_id}/observe", **self.report(status)))

    def report(self, status: str) -> dict[str, Any]:
        """What a monitor says about a permit."""
        source = {"source_kind": "push", "source_id": "interlock"}
        at = self.stage.server.clock().isoformat()
        return {"observed_status": status, "monitor_ref": source, "observed_at": at, "reason": "as reported"}

    def permitted(self, **fields: Any) -> str:
        """An enclosure that has its permit."""
        enclosure = self.enclosure(**fields)
        self.permit(enclosure)
        return enclosure
