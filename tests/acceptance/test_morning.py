"""A morning at the beamline, from the permit of the hutch to the run that failed and why: by REST and by MCP."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from beamwright.kernel import wellknown
from tests.acceptance.clients import Caller, Door, Refused, by_mcp, by_rest
from tests.acceptance.stage import Stage, grant
from tests.acceptance.things import CAMERA, ROTARY_STAGE, number, schema
from tests.live import LiveServer

INTERLOCK = {"source_kind": "push", "source_id": "interlock/hutch"}
KEV = {"system": "udunits", "code": "keV"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Morning:
    """Who takes part, and what they have made so far."""

    server: LiveServer
    scientist: Caller
    colleague: Caller
    monitor: Caller
    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.ids[name]

    async def make(self, name: str, operation: str, /, **fields: Any) -> None:
        """Do it, and keep the id of what was made under the name."""
        receipt = await self.scientist.call(operation, **fields)
        self.ids[name] = next(value for key, value in receipt.items() if key.endswith("_id"))

    async def permit(self, status: str) -> None:
        await self.monitor.call(
            "observe_enclosure_status",
            enclosure_id=self["hutch"],
            observed_status=status,
            monitor_ref=INTERLOCK,
            observed_at=self.server.clock().isoformat(),
            reason="as the interlock says",
        )

    async def run(self, operation: str, name: str = "run", /, **fields: Any) -> dict[str, Any]:
        return await self.scientist.call(operation, run_id=self[name], **fields)

    async def eventually(self, operation: str, name: str, value: Any, /, **fields: Any) -> dict[str, Any]:
        """The answer, once what follows by itself has happened."""
        shown: dict[str, Any] = {}
        for _ in range(200):
            shown = await self.scientist.call(operation, **fields)
            if shown[name] == value:
                return shown
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} is {shown[name]}, never {value}")


@pytest.mark.anyio
@pytest.mark.parametrize("door", [by_rest, by_mcp])
async def test_a_morning_at_the_beamline(stage: Stage, door: Door) -> None:
    colleague, account = stage.administrator(), stage.person("service_account")
    stage.policy(grant("observe_enclosure_status"), to=account)
    async with AsyncExitStack() as open_doors:
        callers = [
            await open_doors.enter_async_context(door(stage.server, subject))
            for subject in (str(wellknown.ADMINISTRATOR), colleague.subject, account.subject)
        ]
        morning = Morning(stage.server, *callers)
        await the_beamline_is_there(morning)
        await the_experiment_is_described(morning)
        await the_work_is_cleared(morning)
        await the_run_starts(morning)
        await it_is_watched_and_written_about(morning)
        await it_is_held_and_the_permit_is_lost(morning)
        await the_permit_is_back_and_it_completes(morning)
        await the_story_is_told(morning)
        await a_constant_is_measured(morning)
        await a_second_run_uses_it_and_fails(morning)


async def the_beamline_is_there(morning: Morning) -> None:
    scientist = morning.scientist
    await morning.make("hutch", "register_enclosure", name=f"Hutch {uuid4().hex}", facility_code="home")
    await morning.permit("Permitted")
    await morning.make(
        "beam", "register_supply", kind="photon_beam", name=f"Ring {uuid4().hex}", facility_code="home"
    )
    await scientist.call("mark_supply_available", supply_id=morning["beam"], reason="top-up")
    where = {"located_in_enclosure_id": morning["hutch"]}
    await morning.make("unit", "register_asset", name="Beamline", tier="Unit", facility_code="home", **where)
    for name, family in (("camera", CAMERA), ("stage", ROTARY_STAGE)):
        await morning.make(
            name,
            "register_asset",
            name=name,
            tier="Device",
            parent_id=morning["unit"],
            family_ids=[family],
            **where,
        )
        await scientist.call("activate_asset", asset_id=morning[name])


async def the_experiment_is_described(morning: Morning) -> None:
    parameters = schema(energy=number("keV", minimum=5, maximum=40), exposure=number("s", minimum=0))
    await morning.make(
        "capability",
        "define_capability",
        code=f"beamwright.capability.{uuid4().hex}",
        name="Tomography",
        required_affordances=["Imageable", "Rotatable"],
        executor_shapes=["METHOD"],
        parameters_schema=parameters,
    )
    await morning.make(
        "method",
        "define_method",
        name="Step scan",
        capability_id=morning["capability"],
        execution_pattern="Batch",
        needed_supplies=["photon_beam"],
        parameters_schema=parameters,
    )
    await morning.make(
        "practice", "define_practice", name="Here", method_id=morning["method"], facility_code="home"
    )
    await morning.make(
        "plan",
        "define_plan",
        name="Rock at 20 keV",
        practice_id=morning["practice"],
        asset_ids=[morning["camera"], morning["stage"]],
        default_parameters={"energy": 20, "exposure": 0.1},
    )
    await morning.make("subject", "register_subject", name="Rock")
    await morning.scientist.call(
        "mount_subject", subject_id=morning["subject"], asset_id=morning["stage"], reason="first sample"
    )


async def the_work_is_cleared(morning: Morning) -> None:
    """The unit is bound by a clearance: until it is in force, nothing starts."""
    await morning.make(
        "clearance",
        "register_clearance",
        template_id=str(wellknown.GENERAL_CLEARANCE_TEMPLATE),
        title="Tomography of rocks",
        bindings=[{"kind": "Asset", "id": morning["unit"]}],
    )
    ready = await morning.scientist.call("check_run_readiness", name="Early", plan_id=morning["plan"])
    assert [each["code"] for each in ready["failures"]] == ["RunClearanceCoverageMismatchError"]
    id = {"clearance_id": morning["clearance"]}
    await morning.scientist.call("submit_clearance", **id)
    await morning.scientist.call("start_clearance_review", **id)
    await morning.scientist.call("append_clearance_review_step", **id, role="safety", decision="Approved")
    await morning.scientist.call("approve_clearance", **id)
    await morning.scientist.call("activate_clearance", **id)
    shown = await morning.scientist.call("get_clearance", **id)
    assert (shown["status"], shown["in_force"]) == ("Active", True)


async def the_run_starts(morning: Morning) -> None:
    await morning.make("campaign", "register_campaign", name="Rocks", intent="Series")
    await morning.scientist.call("start_campaign", campaign_id=morning["campaign"])
    await morning.make(
        "run",
        "start_run",
        name="First rock",
        plan_id=morning["plan"],
        subject_id=morning["subject"],
        campaign_id=morning["campaign"],
        override_parameters={"energy": 25},
    )
    shown = await morning.run("get_run")
    assert (shown["status"], shown["outcome"], shown["campaign_id"]) == (
        "Running",
        "InProgress",
        morning["campaign"],
    )
    assert shown["effective_parameters"] == {"energy": 25, "exposure": 0.1}
    relied_on = {kind: [each["id"] for each in found] for kind, found in shown["gate_evidence"].items()}
    assert (relied_on["enclosures"], relied_on["clearances"]) == ([morning["hutch"]], [morning["clearance"]])


async def it_is_watched_and_written_about(morning: Morning) -> None:
    entries = [
        {
            "event_id": str(uuid4()),
            "channel_name": "energy",
            "value": 25 + step / 100,
            "unit": KEV,
            "sampling_procedure": "Monitor",
            "sampled_at": morning.server.clock().isoformat(),
        }
        for step in range(10)
    ]
    sent = await morning.run("append_observations", source_id="mono", entries=entries)
    again = await morning.run("append_observations", source_id="mono", entries=entries)
    assert (sent["inserted"], again["inserted"], again["duplicates"]) == (10, 0, 10)
    [channel] = (await morning.run("list_run_channels"))["channels"]
    assert (channel["channel_name"], channel["count"], channel["maximum"]) == ("energy", 10, 25.09)
    await morning.run("append_run_logbook_entry", text="The rock is cracked.", tags=["sample"])
    [entry] = (await morning.run("list_run_logbook"))["items"]
    assert entry["text"] == "The rock is cracked."


async def it_is_held_and_the_permit_is_lost(morning: Morning) -> None:
    await morning.run("hold_run", reason="somebody must go in")
    await morning.permit("NotPermitted")
    refused: Refused = await morning.scientist.refusal("resume_run", run_id=morning["run"])
    assert (refused.status, refused.code) == (409, "RunRequiresPermittedEnclosureError")
    assert morning["hutch"] in str(refused.context["failures"])
    shown = await morning.run("get_run")
    assert (shown["status"], shown["status_reason"]) == ("Held", "somebody must go in")


async def the_permit_is_back_and_it_completes(morning: Morning) -> None:
    await morning.permit("Permitted")
    assert (await morning.run("get_run"))["status"] == "Held"
    await morning.run("resume_run", note="searched and locked")
    await morning.run("adjust_run", parameters_patch={"exposure": 0.2}, reason="too dark")
    ended = await morning.run("complete_run", note="all projections")
    outcome = await morning.scientist.call(
        "get_plan_outcome", plan_id=morning["plan"], consistent_with=ended["as_of"]
    )
    assert (outcome["latest"]["run_id"], outcome["latest"]["outcome"]) == (morning["run"], "Succeeded")
    assert (outcome["running_run_ids"], outcome["counts"]["Completed"]) == ([], 1)
    measured = await morning.eventually("get_subject", "status", "Measured", subject_id=morning["subject"])
    assert measured["measured_run_ids"] == [morning["run"]]
    progress = await morning.scientist.call(
        "get_campaign_progress", campaign_id=morning["campaign"], consistent_with=ended["as_of"]
    )
    assert (progress["run_count"], progress["counts_by_outcome"]["Succeeded"]) == (1, 1)
    assert progress["latest_ended"]["run_id"] == morning["run"]


STORY = [
    "RunStarted",
    "RunAddedToCampaign",
    "RunLogbookEntryAppended",
    "RunHeld",
    "RunResumed",
    "RunAdjusted",
    "RunCompleted",
]


async def the_story_is_told(morning: Morning) -> None:
    history = (await morning.run("get_run_history"))["items"]
    assert [each["event_type"] for each in history] == STORY
    told, after = [], "0.0"
    # A page may end before what was written last; the next one goes on.
    for _ in range(200):
        page = await morning.scientist.call("list_events", after=after, stream_type="Run", limit=200)
        told += [each["type"] for each in page["items"] if each["streamid"] == morning["run"]]
        after = page["next"]
        if told[-1:] == ["beamwright.RunCompleted"]:
            break
    assert told == [f"beamwright.{event}" for event in STORY]


async def a_constant_is_measured(morning: Morning) -> None:
    await morning.make(
        "calibration",
        "define_calibration",
        target_id=morning["camera"],
        quantity="rotation_center",
        operating_point={"energy": 25, "optics_config": "10x"},
    )
    id = {"calibration_id": morning["calibration"]}
    await morning.scientist.call(
        "append_calibration_revision", **id, value={"center": 1023.5}, source={"kind": "Asserted"}
    )
    [revision] = (await morning.scientist.call("get_calibration", **id))["revisions"]
    morning.ids["revision"] = revision["revision_id"]
    id["revision_id"] = morning["revision"]
    refused = await morning.scientist.refusal("verify_calibration_revision", **id)
    assert refused.code == "CalibrationRevisionVerifierNotIndependentError"
    verified = await morning.colleague.call("verify_calibration_revision", **id)
    assert verified["events"] == ["CalibrationRevisionVerified"]
    [current] = (
        await morning.scientist.call(
            "get_current_calibration", target_id=morning["camera"], quantity="rotation_center"
        )
    )["items"]
    assert (current["revision"]["revision_id"], current["revision"]["value"]) == (
        morning["revision"],
        {"center": 1023.5},
    )


async def a_second_run_uses_it_and_fails(morning: Morning) -> None:
    await morning.make(
        "second",
        "start_run",
        name="Second rock",
        plan_id=morning["plan"],
        campaign_id=morning["campaign"],
        pinned_calibration_ids=[morning["revision"]],
    )
    [pinned] = (await morning.run("get_run", "second"))["pinned_calibrations"]
    assert (pinned["revision_id"], pinned["status"]) == (morning["revision"], "Verified")
    ended = await morning.run("abort_run", "second", reason="the camera went dark")
    outcome = await morning.scientist.call(
        "get_plan_outcome", plan_id=morning["plan"], consistent_with=ended["as_of"]
    )
    latest = outcome["latest"]
    assert (latest["run_id"], latest["status"], latest["outcome"], latest["status_reason"]) == (
        morning["second"],
        "Aborted",
        "Failed",
        "the camera went dark",
    )
    assert outcome["counts"] == {
        "Running": 0,
        "Held": 0,
        "Completed": 1,
        "Aborted": 1,
        "Stopped": 0,
        "Truncated": 0,
    }
