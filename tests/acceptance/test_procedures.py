"""Procedures of a served installation: what lets them start and resume, who holds them, and how they end."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.interleaving import Meanwhile
from tests.acceptance.stage import Person, Stage, at_once, done, facility, grant, refusal
from tests.acceptance.things import Things, number, schema
from tests.live import LiveServer


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


@pytest.fixture
def meanwhile(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(server, monkeypatch)


def start(stage: Stage, procedure: str) -> httpx.Response:
    return stage.admin.post(f"/procedures/{procedure}/start")


def resume(stage: Stage, procedure: str) -> httpx.Response:
    return stage.admin.post(f"/procedures/{procedure}/resume")


def within(things: Things, *enclosures: str | None, **fields: Any) -> str:
    """A procedure on one camera in each of these enclosures."""
    unit = things.unit()
    cameras = [things.active(unit, located_in_enclosure_id=each) for each in enclosures]
    return things.procedure(target_asset_ids=cameras, **fields)


def going(stage: Stage, procedure: str) -> str:
    done(start(stage, procedure))
    return procedure


def held(stage: Stage, procedure: str) -> str:
    done(stage.admin.post(f"/procedures/{going(stage, procedure)}/hold", reason="look inside"))
    return procedure


def run_on(things: Things, kind: str) -> str:
    """A run that goes on, and whose method needs a supply of this kind."""
    return things.run(things.plan(practice_id=things.practice(things.method(needed_supplies=[kind]))))


def available(things: Things, kind: str) -> str:
    supply = things.supply(kind=kind)
    done(things.admin.post(f"/supplies/{supply}/mark-available", reason="there"))
    return supply


def shown(stage: Stage, procedure: str) -> Any:
    return done(stage.admin.get(f"/procedures/{procedure}"))


# The gate: enclosures


def test_one_enclosure_without_a_permit_is_named(stage: Stage, things: Things) -> None:
    permitted, lost = things.permitted(), things.permitted()
    procedure = within(things, permitted, lost)
    things.permit(lost, "NotPermitted")
    answer = start(stage, procedure)
    assert refusal(answer) == (409, "ProcedureEnclosureCoverageMismatchError")
    [failure] = answer.json()["context"]["failures"]
    assert lost in str(failure) and "NotPermitted" in str(failure) and permitted not in str(failure)
    assert stage.event_types(procedure) == ["ProcedureRegistered"]


def test_no_enclosure_with_a_permit_is_another_refusal(stage: Stage, things: Things) -> None:
    answer = start(stage, within(things, things.enclosure(), things.enclosure()))
    assert refusal(answer) == (409, "ProcedureRequiresPermittedEnclosureError")


def test_the_enclosure_of_what_an_asset_is_part_of_counts(stage: Stage, things: Things) -> None:
    hutch = things.permitted()
    unit = things.unit(located_in_enclosure_id=hutch)
    camera = things.active(things.asset(unit, tier="Component"))
    first, second = (things.procedure(target_asset_ids=[camera]) for _ in range(2))
    done(start(stage, first))
    assert [each["id"] for each in shown(stage, first)["gate_evidence"]["enclosures"]] == [hutch]
    done(stage.admin.post(f"/enclosures/{hutch}/decommission", reason="torn down"))
    assert refusal(start(stage, second)) == (409, "ProcedureRequiresPermittedEnclosureError")


def test_without_an_enclosure_nothing_is_asked(stage: Stage, things: Things) -> None:
    done(start(stage, within(things, None)))
    done(start(stage, things.procedure()))


def test_a_resume_passes_the_same_gate(stage: Stage, things: Things) -> None:
    permitted, lost = things.permitted(), things.permitted()
    procedure = held(stage, within(things, permitted, lost))
    things.permit(lost, "NotPermitted")
    assert refusal(resume(stage, procedure)) == (409, "ProcedureEnclosureCoverageMismatchError")
    things.permit(permitted, "NotPermitted")
    assert refusal(resume(stage, procedure)) == (409, "ProcedureRequiresPermittedEnclosureError")
    for hutch in (permitted, lost):
        things.permit(hutch)
    assert shown(stage, procedure)["status"] == "Held"
    done(resume(stage, procedure))
    assert stage.event_types(procedure) == [
        "ProcedureRegistered",
        "ProcedureStarted",
        "ProcedureHeld",
        "ProcedureResumed",
    ]


def test_a_permit_lost_before_the_append_refuses_the_start(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    hutch = things.permitted()
    procedure, lost = within(things, hutch), things.report("NotPermitted")
    meanwhile.within("start_procedure", things.monitor, f"/enclosures/{hutch}/observe", **lost)
    assert refusal(start(stage, procedure)) == (409, "ProcedureRequiresPermittedEnclosureError")
    assert [answer.status_code for answer in meanwhile.answers] == [200]
    assert stage.event_types(procedure) == ["ProcedureRegistered"]


# The gate: supplies


def test_a_supply_lost_before_the_append_refuses_a_phase(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    kind = f"photon_beam {uuid4().hex}"[:50]
    supply = available(things, kind)
    phase = things.procedure(parent_run_id=run_on(things, kind))
    meanwhile.within(
        "start_procedure", stage.admin, f"/supplies/{supply}/mark-unavailable", reason="beam dump"
    )
    answer = start(stage, phase)
    assert refusal(answer) == (409, "ProcedureSupplyCoverageMismatchError")
    assert [each.status_code for each in meanwhile.answers] == [200] and supply in answer.text
    assert stage.event_types(phase) == ["ProcedureRegistered"]


def test_a_supply_lost_before_the_append_refuses_the_resume_of_a_phase(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    kind = f"photon_beam {uuid4().hex}"[:50]
    supply = available(things, kind)
    phase = held(stage, things.procedure(parent_run_id=run_on(things, kind)))
    meanwhile.within(
        "resume_procedure", stage.admin, f"/supplies/{supply}/mark-unavailable", reason="beam dump"
    )
    assert refusal(resume(stage, phase)) == (409, "ProcedureSupplyCoverageMismatchError")
    assert stage.event_types(phase)[-1] == "ProcedureHeld"


def test_a_procedure_without_a_run_needs_no_supply(stage: Stage, things: Things) -> None:
    kind = f"photon_beam {uuid4().hex}"[:50]
    supply = available(things, kind)
    run = run_on(things, kind)
    camera = done(stage.admin.get(f"/runs/{run}"))["asset_ids"][0]
    done(stage.admin.post(f"/supplies/{supply}/deregister", reason="no more"))
    alone = things.procedure(target_asset_ids=[camera])
    phase = things.procedure(target_asset_ids=[camera], parent_run_id=run)
    done(start(stage, alone))
    assert refusal(start(stage, phase)) == (409, "ProcedureRequiresAvailableSupplyError")


# The gate: runs, visits, clearances, assets


def test_a_phase_waits_for_its_run_and_for_somebody_to_resume_it(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    run = things.run()
    phase = things.procedure(parent_run_id=run)
    meanwhile.within("start_procedure", stage.admin, f"/runs/{run}/hold", reason="beam lost")
    assert refusal(start(stage, phase)) == (409, "ProcedureParentRunNotRunningError")
    done(stage.admin.post(f"/runs/{run}/resume"))
    done(start(stage, phase))
    done(stage.admin.post(f"/runs/{run}/stop", reason="enough"))
    late = stage.admin.post("/procedures", name="Late", kind="homing", parent_run_id=run)
    assert refusal(late) == (409, "ProcedureParentRunEndedError")


def test_a_phase_is_bound_to_the_assets_of_its_run_where_it_names_none(stage: Stage, things: Things) -> None:
    hutch = things.permitted()
    camera = things.active(things.unit(), located_in_enclosure_id=hutch)
    run = things.run(things.plan(camera))
    phase = things.procedure(parent_run_id=run)
    things.permit(hutch, "NotPermitted")
    assert refusal(start(stage, phase)) == (409, "ProcedureRequiresPermittedEnclosureError")


def test_a_visit_must_be_open(stage: Stage, things: Things) -> None:
    procedure = things.procedure(visit_id=stage.visit())
    assert refusal(start(stage, procedure)) == (409, "ProcedureVisitNotOpenError")
    done(start(stage, things.procedure(visit_id=stage.visit_in_progress())))


def test_a_clearance_withdrawn_before_the_append_refuses_the_start(
    stage: Stage, things: Things, meanwhile: Meanwhile
) -> None:
    unit = things.unit()
    clearance = things.cleared({"kind": "Asset", "id": unit})
    first, second = (things.procedure(target_asset_ids=[things.active(unit)]) for _ in range(2))
    token = done(start(stage, first))["as_of"]
    done(stage.admin.get("/procedures", consistent_with=token))
    [work] = done(stage.admin.get(f"/clearances/{clearance}/work"))["items"]
    assert (work["kind"], work["id"]) == ("Procedure", first)
    coverage = done(stage.admin.get("/clearances/coverage", procedure_id=second))
    assert coverage["covered"]
    meanwhile.within(
        "start_procedure", stage.admin, f"/clearances/{clearance}/expire", reason="no longer safe"
    )
    answer = start(stage, second)
    assert refusal(answer) == (409, "ProcedureClearanceCoverageMismatchError") and clearance in answer.text
    assert not done(stage.admin.get("/clearances/coverage", procedure_id=second))["covered"]


def test_a_clearance_of_the_procedure_itself_covers_it(stage: Stage, things: Things) -> None:
    unit = things.unit()
    lapsed = things.cleared({"kind": "Asset", "id": unit})
    procedure = things.procedure(target_asset_ids=[things.active(unit)])
    done(stage.admin.post(f"/clearances/{lapsed}/expire", reason="over"))
    assert refusal(start(stage, procedure)) == (409, "ProcedureClearanceCoverageMismatchError")
    own = things.cleared({"kind": "Procedure", "id": procedure})
    done(start(stage, procedure))
    assert [each["id"] for each in shown(stage, procedure)["gate_evidence"]["clearances"]] == [own]


def test_the_sample_of_the_run_needs_its_clearance_in_every_phase(stage: Stage, things: Things) -> None:
    subject, asset = things.subject(), things.active(things.unit())
    clearance = things.cleared({"kind": "Subject", "id": subject})
    done(stage.admin.post(f"/subjects/{subject}/mount", asset_id=asset, reason="next"))
    run = things.run(things.plan(asset), subject_id=subject)
    first, second = (things.procedure(parent_run_id=run) for _ in range(2))
    done(start(stage, first))
    done(stage.admin.post(f"/clearances/{clearance}/expire", reason="over"))
    answer = start(stage, second)
    assert refusal(answer) == (409, "ProcedureClearanceCoverageMismatchError") and subject in answer.text


def test_maintenance_is_done_on_what_is_faulted_or_out_of_service(stage: Stage, things: Things) -> None:
    camera = things.active(things.unit())
    done(stage.admin.post(f"/assets/{camera}/fault", reason="it smokes"))
    done(stage.admin.post(f"/assets/{camera}/enter-maintenance", reason="to be repaired"))
    done(start(stage, things.procedure(target_asset_ids=[camera], kind="recovery")))
    gone = things.procedure(target_asset_ids=[camera])
    done(stage.admin.post(f"/assets/{camera}/decommission", reason="beyond repair"))
    assert refusal(start(stage, gone)) == (409, "ProcedureTargetAssetDecommissionedError")


def test_readiness_tells_every_refusal_that_is_due(stage: Stage, things: Things) -> None:
    run = things.run()
    procedure = within(things, things.enclosure(), parent_run_id=run)
    done(stage.admin.post(f"/runs/{run}/hold", reason="beam lost"))
    told = done(stage.admin.get(f"/procedures/{procedure}/readiness"))
    assert (told["ready"], [each["code"] for each in told["failures"]]) == (
        False,
        ["ProcedureParentRunNotRunningError", "ProcedureRequiresPermittedEnclosureError"],
    )
    assert refusal(start(stage, procedure))[1] == told["failures"][0]["code"]
    fine = things.procedure()
    assert done(stage.admin.get(f"/procedures/{fine}/readiness"))["ready"]
    going(stage, fine)
    again = done(stage.admin.get(f"/procedures/{fine}/readiness"))
    assert [each["code"] for each in again["failures"]] == ["ProcedureCannotResumeError"]


# Holding and ending


def colleague(stage: Stage, kind: str = "human") -> Person:
    person = stage.person(kind)
    stage.policy(grant("hold_procedure", "resume_procedure", "get_procedure"), to=person)
    return person


def test_nobody_cancels_the_hold_of_another_operator(stage: Stage, things: Things) -> None:
    procedure, second = going(stage, things.procedure()), colleague(stage)
    supervisor, path = colleague(stage, "service_account"), f"/procedures/{procedure}"
    done(stage.admin.post(f"{path}/hold", reason="I am inside"))
    assert refusal(stage.admin.post(f"{path}/hold", reason="still")) == (409, "ProcedureCannotHoldError")
    assert refusal(second.post(f"{path}/resume")) == (409, "ProcedureHoldClaimsRemainError")
    done(supervisor.post(f"{path}/hold", reason="drifting"))
    receipt = done(second.post(f"{path}/resume"))
    view = shown(stage, procedure)
    assert receipt["events"] == ["ProcedureHoldClaimReleased"]
    assert (view["status"], [each["reason"] for each in view["hold_reasons"]]) == ("Held", ["I am inside"])
    done(stage.admin.post(f"{path}/resume"))
    assert shown(stage, procedure)["status"] == "Running"


def test_of_two_that_start_at_once_one_does(stage: Stage, things: Things) -> None:
    procedure = things.procedure()
    answers = at_once(*[lambda: start(stage, procedure)] * 2)
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert stage.event_types(procedure) == ["ProcedureRegistered", "ProcedureStarted"]


def test_an_aborted_procedure_tells_in_one_call_how_it_ended_and_why(stage: Stage, things: Things) -> None:
    procedure = going(stage, things.procedure())
    done(stage.admin.post(f"/procedures/{procedure}/iterations/start", iteration_index=1))
    receipt = done(stage.admin.post(f"/procedures/{procedure}/abort", reason="limit switch"))
    view = shown(stage, procedure)
    assert receipt["events"] == ["ProcedureIterationEnded", "ProcedureAborted"]
    assert (view["status"], view["status_reason"], view["ended_by"], view["current_iteration_index"]) == (
        "Aborted",
        "limit switch",
        stage.admin.id,
        None,
    )
    assert refusal(start(stage, procedure)) == (409, "ProcedureCannotStartError")


# Recipes and outside drivers

ALIGN = schema(angle=number("degree", minimum=0, maximum=180))
STEPS = [
    {"kind": "Setpoint", "address": "simulated://rotation:angle", "value": {"__binding__": "angle"}},
    {
        "kind": "Check",
        "address": "simulated://rotation:angle",
        "criterion": {
            "kind": "WithinTolerance",
            "expected": {"__binding__": "angle"},
            "tolerance": 0.1,
        },
    },
]
PARK = {"kind": "Setpoint", "address": "simulated://rotation:angle", "value": 0}


def aligning(things: Things, **fields: Any) -> tuple[str, str]:
    """A recipe, and a procedure that was made of it."""
    recipe = things.recipe(things.capability(parameters_schema=ALIGN), steps=STEPS, closing_steps=[PARK])
    return recipe, things.procedure(recipe_id=recipe, bindings={"angle": 90}, **fields)


def test_a_later_version_of_the_recipe_changes_nothing(stage: Stage, things: Things) -> None:
    recipe, procedure = aligning(things)
    before = done(stage.admin.get(f"/procedures/{procedure}/steps"))
    steps_hash = shown(stage, procedure)["steps_hash"]
    done(stage.admin.post(f"/recipes/{recipe}/version", version_tag="2", steps=STEPS[:1], closing_steps=[]))
    done(start(stage, procedure))
    view = shown(stage, procedure)
    assert done(stage.admin.get(f"/procedures/{procedure}/steps")) == before
    assert (view["steps_hash"], view["recipe_version_tag"], view["recipe_name"]) == (
        steps_hash,
        "initial",
        "Recipe",
    )
    assert (view["step_count"], view["closing_step_count"], view["bindings"]) == (2, 1, {"angle": 90})
    newer = things.procedure(recipe_id=recipe, bindings={"angle": 90})
    assert (shown(stage, newer)["step_count"], shown(stage, newer)["recipe_version_tag"]) == (1, "2")
    older = things.procedure(recipe_id=recipe, recipe_version_tag="initial", bindings={"angle": 90})
    assert shown(stage, older)["steps_hash"] == steps_hash


def test_a_binding_out_of_range_is_refused_and_nothing_is_registered(stage: Stage, things: Things) -> None:
    recipe, _ = aligning(things)
    before = stage.event_count()
    asked = {"name": "Align", "kind": "alignment", "recipe_id": recipe}
    outside = stage.admin.post("/procedures", **asked, bindings={"angle": 270})
    assert refusal(outside) == (400, "InvalidRecipeBindingsError")
    assert refusal(stage.admin.post("/procedures", **asked)) == (400, "UnboundRecipeBindingError")
    assert refusal(stage.admin.post("/procedures", **asked, recipe_version_tag="9")) == (
        404,
        "RecipeVersionNotFoundError",
    )
    assert stage.event_count() == before


def entry(kind: str, index: int, at: str, result: str, **payload: Any) -> dict[str, Any]:
    step = {"event_id": str(uuid4()), "step_kind": kind, "step_index": index, "sampled_at": at}
    return step | {"result": result, "payload": payload}


def test_an_outside_program_drives_and_tells_what_it_did(stage: Stage, things: Things) -> None:
    _, procedure = aligning(things)
    path, clock = f"/procedures/{procedure}", stage.server.clock
    going(stage, procedure)
    for index, angle in ((1, 89.0), (2, 90.0)):
        now = clock().isoformat()
        done(stage.admin.post(f"{path}/iterations/start", iteration_index=index))
        entries = [
            entry("Setpoint", 0, now, "Succeeded", address="simulated://rotation:angle", value=angle),
            entry("Check", 1, now, "Succeeded" if index == 2 else "Failed", reading=angle),
        ]
        receipt = done(stage.admin.post(f"{path}/activities/append", entries=entries))
        again = done(stage.admin.post(f"{path}/activities/append", entries=entries))
        assert (receipt, again["inserted"]) == ({"received": 2, "inserted": 2, "duplicates": 0}, 0)
        outcome = {
            "event_id": str(uuid4()),
            "iteration_index": index,
            "point": {"angle": angle},
            "objective_value": 90 - angle,
            "succeeded": True,
            "sampled_at": now,
        }
        done(stage.admin.post(f"{path}/outcomes/append", entries=[outcome]))
        done(stage.admin.post(f"{path}/iterations/end", iteration_index=index, converged=index == 2))
    done(stage.admin.post(f"{path}/complete", note="aligned"))
    view = shown(stage, procedure)
    assert (view["status"], view["termination_reason"], view["iteration_count"]) == (
        "Completed",
        "Converged",
        2,
    )
    steps = done(stage.admin.get(f"{path}/steps"))["items"]
    assert [(each["state"], each["attempts"]) for each in steps] == [
        ("Succeeded", 2),
        ("Succeeded", 2),
        ("Pending", 0),
    ]
    passes = done(stage.admin.get(f"{path}/iterations"))["items"]
    assert [(each["iteration_index"], each["converged"], each["objective_value"]) for each in passes] == [
        (1, False, 1.0),
        (2, True, 0.0),
    ]
    failed = done(stage.admin.get(f"{path}/activities", result="Failed"))["items"]
    assert [(each["iteration_index"], each["step_kind"]) for each in failed] == [(1, "Check")]
    late = [entry("Check", 1, clock().isoformat(), "Succeeded")]
    closed = stage.admin.post(f"{path}/activities/append", entries=late)
    assert refusal(closed) == (409, "ProcedureActivitiesClosedError")


def test_a_calibration_names_the_procedure_that_measured_it(stage: Stage, things: Things) -> None:
    procedure, calibration = things.procedure(), things.calibration()
    things.revision(calibration, source={"kind": "Measured", "id": procedure})
    unknown = {"value": {"offset": 1}, "source": {"kind": "Measured", "id": str(uuid4())}}
    answer = stage.admin.post(f"/calibrations/{calibration}/revisions/append", **unknown)
    assert refusal(answer) == (404, "ProcedureNotFoundError")


# Lists and reach


def test_procedures_are_found_by_what_they_are_about(stage: Stage, things: Things) -> None:
    run, camera, kind = things.run(), things.active(things.unit()), uuid4().hex
    phase = going(stage, things.procedure(parent_run_id=run, kind=kind))
    alone = things.procedure(target_asset_ids=[camera], kind=kind)
    token = done(stage.admin.post(f"/procedures/{phase}/hold", reason="pause"))["as_of"]

    def found(**filters: Any) -> set[str]:
        page = done(stage.admin.get("/procedures", consistent_with=token, **filters))
        return {item["id"] for item in page["items"]}

    assert found(kind=kind) == found(q=kind) == {phase, alone}
    assert found(parent_run_id=run) == found(kind=kind, status="Held") == {phase}
    assert found(target_asset_id=camera) == found(kind=kind, status="Defined") == {alone}
    assert found(kind=kind, started_from="2000-01-01T00:00:00Z") == {phase}
    assert found(kind=kind, started_until="2000-01-01T00:00:00Z") == set()


def test_a_procedure_outside_ones_reach_is_not_there(stage: Stage, things: Things) -> None:
    procedure, stranger = things.procedure(), stage.person()
    stage.policy(grant("operation:*", scope=facility(stage.site())), to=stranger)
    assert refusal(stranger.get(f"/procedures/{procedure}")) == (404, "ProcedureNotFoundError")
    for verb in ("start", "abort"):
        answer = stranger.post(
            f"/procedures/{procedure}/{verb}", **({"reason": "r"} if verb == "abort" else {})
        )
        assert refusal(answer) == (404, "ProcedureNotFoundError")
    assert stage.event_types(procedure) == ["ProcedureRegistered"]
