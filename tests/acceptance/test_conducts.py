"""Conducts over HTTP: a job ends its run, and whatever happens to run, job or service, it is started once."""

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from beamwright.kernel import wellknown
from tests.acceptance.interleaving import Meanwhile
from tests.acceptance.jobs import Lab
from tests.acceptance.stage import Stage, at_once, denial, done, refusal
from tests.live import Cluster, LiveServer, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


def computing(folder: Path, **more: Any) -> dict[str, Any]:
    """Settings under which the program may be run."""
    return {
        "compute_allowed_commands": (sys.executable,),
        "compute_uri_roots": (folder.as_uri(),),
        "data": folder / "data",
    } | more


@pytest.fixture(scope="module")
def server(cluster: Cluster, folder: Path) -> Iterator[LiveServer]:
    (folder / "data").mkdir()
    with serving(cluster, **computing(folder)) as server:
        yield server


@pytest.fixture(scope="module")
def lab(stage: Stage, folder: Path) -> Lab:
    return Lab(stage, folder)


# The job and its run


def test_a_job_that_succeeds_completes_its_run(lab: Lab) -> None:
    job = lab.job()
    answer = job.conduct(output_uri=job.output_uri, resources={"cpus": 2}, wait=25)
    assert answer.status_code == 200
    conduct = answer.json()["conduct"]
    assert (conduct["succeeded"], conduct["job_status"], conduct["actuation_kind"]) == (
        True,
        "Succeeded",
        "Physical",
    )
    assert conduct["artifact"]["checksum"] == {
        "algorithm": "sha256",
        "value": sha256(b"a volume").hexdigest(),
    }
    assert (job.run["status"], job.run["conduct"], job.executions) == ("Completed", None, 1)


def test_the_answer_tells_where_the_conduct_is(lab: Lab) -> None:
    job = lab.job("waits")
    answer = job.conduct()
    assert answer.status_code == 202 and answer.json()["events"] == ["RunConductStarted"]
    conduct = answer.json()["conduct"]
    assert answer.headers["location"] == f"{job.path}/conducts/{conduct['conduct_id']}"
    assert done(lab.admin.get(answer.headers["location"])) == conduct
    assert conduct["succeeded"] is None and job.run["conduct"]["conduct_id"] == conduct["conduct_id"]
    job.go()
    assert job.ended()["succeeded"]


def test_who_waits_too_short_is_told_to_look_again(lab: Lab) -> None:
    job = lab.job("waits")
    answer = job.conduct(wait=0.3)
    assert (answer.status_code, answer.json()["conduct"]["ended_at"]) == (202, None)
    job.go()
    job.ended()


def test_a_job_that_fails_aborts_its_run_with_its_own_words(lab: Lab) -> None:
    job = lab.job("fails")
    conduct = done(job.conduct(wait=25))["conduct"]
    assert not conduct["succeeded"] and "exit code 1" in conduct["failure"]
    run = job.run
    assert (run["status"], run["outcome"]) == ("Aborted", "Failed")
    assert "the rotation centre was not found" in run["status_reason"]
    assert run["ended_by"] == str(wellknown.RUN_CONDUCTOR)


def test_a_job_that_leaves_nothing_where_something_is_due_aborts_its_run(lab: Lab) -> None:
    job = lab.job("idle")
    conduct = done(job.conduct(output_uri=job.output_uri, wait=25))["conduct"]
    assert (conduct["succeeded"], conduct["job_status"]) == (False, "Succeeded")
    assert "ArtifactNotFoundError" in job.run["status_reason"]


def test_the_end_of_job_and_run_is_one_append_and_answers_to_the_call(lab: Lab) -> None:
    job = lab.job()
    headers = {"x-correlation-id": uuid4().hex}
    done(lab.admin.client.post(f"{job.path}/conduct", json={"wait": 25}, headers=headers))
    rows = lab.stage.rows(
        "SELECT event_type, transaction_id, correlation_id, principal_id, causation_id FROM events "
        "WHERE stream_id = $1 ORDER BY version",
        job.run_id,
    )
    assert [row[0] for row in rows] == ["RunStarted", "RunConductStarted", "RunConductEnded", "RunCompleted"]
    assert rows[2][1] == rows[3][1] != rows[1][1]
    assert {row[2] for row in rows[1:]} == {headers["x-correlation-id"]}
    assert rows[2][3] == wellknown.RUN_CONDUCTOR and rows[2][4] is not None


def test_a_program_that_is_not_allowed_is_not_run(lab: Lab) -> None:
    method = lab.things.method()
    lab.launch_by(method, {"base_command": ["/bin/sh", "-c", "true"]})
    run = lab.things.run(lab.things.plan(practice_id=lab.things.practice(method)))
    conduct = done(lab.admin.post(f"/runs/{run}/conduct", wait=25))["conduct"]
    assert "COMPUTE_ALLOWED_COMMANDS" in conduct["failure"] and conduct["job_id"] is None
    assert done(lab.admin.get(f"/runs/{run}"))["status"] == "Aborted"


def test_a_run_follows_the_launch_that_it_pinned(lab: Lab) -> None:
    job = lab.job()
    lab.launch_by(lab.method, {"base_command": [sys.executable, "-c", "raise SystemExit(9)"]})
    try:
        assert done(job.conduct(wait=25))["conduct"]["succeeded"] and job.executions == 1
    finally:
        lab.launch_by(lab.method, lab.launch_spec)


# What happens meanwhile


def test_a_run_that_is_held_meanwhile_keeps_its_job_and_is_completed_by_a_person(lab: Lab) -> None:
    job = lab.job("waits").started()
    job.post("hold", reason="let us look first")
    job.go()
    assert job.ended()["succeeded"] and job.run["status"] == "Held"
    assert job.events[-1] == "RunConductEnded"
    job.post("resume")
    job.post("complete")
    assert job.run["status"] == "Completed"


def test_a_run_that_was_held_and_resumed_meanwhile_is_completed_by_its_job(lab: Lab) -> None:
    job = lab.job("waits").started()
    job.post("hold", reason="let us look first")
    job.post("resume")
    job.go()
    assert job.ended()["succeeded"] and (job.run["status"], job.executions) == ("Completed", 1)


def test_a_run_that_ended_meanwhile_has_its_job_cancelled_and_stays_as_it_ended(lab: Lab) -> None:
    job = lab.job("waits").started()
    job.post("abort", reason="smoke")
    conduct = job.ended()
    assert (conduct["job_status"], conduct["succeeded"]) == ("Cancelled", False)
    assert (job.run["status"], job.run["status_reason"]) == ("Aborted", "smoke")
    assert job.events[-2:] == ["RunAborted", "RunConductEnded"]


def test_a_second_conduct_follows_the_first_on_a_run_that_was_held(lab: Lab) -> None:
    job = lab.job("waits").started()
    job.post("hold", reason="once more")
    job.go()
    job.ended()
    job.post("resume")
    assert done(job.conduct(wait=25))["conduct"]["succeeded"]
    assert (len(job.conducts), job.executions, job.run["status"]) == (2, 2, "Completed")


def test_of_two_conducts_at_once_one_is_taken(lab: Lab) -> None:
    job = lab.job("waits")
    answers = at_once(job.conduct, job.conduct)
    assert sorted(answer.status_code for answer in answers) == [202, 409]
    assert [each.json()["code"] for each in answers if each.is_error] == ["RunCannotConductError"]
    job.go()
    job.ended()
    assert (job.events.count("RunConductStarted"), job.executions) == (1, 1)


def test_a_repeated_call_starts_nothing_more(lab: Lab) -> None:
    job, key = lab.job("waits"), {"idempotency-key": uuid4().hex}
    first, again = (lab.admin.client.post(f"{job.path}/conduct", json={}, headers=key) for _ in range(2))
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["location"] == first.headers["location"]
    job.go()
    job.ended()
    assert job.executions == 1


def test_a_permit_lost_before_the_reservation_refuses_the_job(
    lab: Lab, server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    things, hutch = lab.things, lab.things.permitted()
    camera = things.active(things.unit(), located_in_enclosure_id=hutch)
    parameters = {"name": uuid4().hex, "mode": "works"}
    plan = things.plan(camera, practice_id=things.practice(lab.method))
    run = things.run(plan, override_parameters=parameters)
    meanwhile = Meanwhile(server, monkeypatch)
    meanwhile.within(
        "conduct_run", things.monitor, f"/enclosures/{hutch}/observe", **things.report("NotPermitted")
    )
    answer = lab.admin.post(f"/runs/{run}/conduct")
    assert refusal(answer) == (409, "RunRequiresPermittedEnclosureError")
    assert lab.stage.event_types(run) == ["RunStarted"] and not (lab.folder / parameters["name"]).exists()


# The service goes away


def test_a_service_that_is_restarted_finds_its_job_again(cluster: Cluster, folder: Path) -> None:
    dsn = cluster.database()
    with serving(cluster, dsn, **computing(folder)) as server, Stage(server) as stage:
        lab = Lab(stage, folder)
        going_on, over, stopped = jobs = [lab.job("waits").started() for _ in range(3)]
    # While nobody looks, one ends.
    over.go()
    over.over()
    with serving(cluster, dsn, **computing(folder)) as server, Stage(server) as stage:
        lab.move(stage)
        assert over.ended()["succeeded"] and over.run["status"] == "Completed"
        going_on.go()
        assert going_on.ended()["succeeded"] and going_on.run["status"] == "Completed"
        stopped.post("stop", reason="enough")
        assert stopped.ended()["job_status"] == "Cancelled" and stopped.run["status"] == "Stopped"
    assert [job.executions for job in jobs] == [1, 1, 1]


def test_nothing_begins_on_a_run_that_was_held_or_ended_before_its_job_began(
    cluster: Cluster, folder: Path
) -> None:
    dsn = cluster.database()
    idle = computing(folder, run_conductor=False)
    with serving(cluster, dsn, **idle) as server, Stage(server) as stage:
        lab = Lab(stage, folder)
        held, stopped, plain = lab.job(), lab.job(), lab.job()
        for job in (held, stopped, plain):
            done(job.conduct())
        held.post("hold", reason="wait")
        stopped.post("stop", reason="no")
        with serving(cluster, dsn, **computing(folder)):
            assert plain.ended()["succeeded"]
            assert stopped.ended()["job_status"] == "Cancelled" and stopped.executions == 0
            assert held.executions == 0 and held.conducts[0]["ended_at"] is None
            held.post("resume")
            assert held.ended()["succeeded"] and held.executions == 1


def test_a_job_of_another_place_is_left_to_it(cluster: Cluster, folder: Path) -> None:
    dsn = cluster.database()
    elsewhere = computing(folder, compute_place="elsewhere")
    with serving(cluster, dsn, **elsewhere | {"run_conductor": False}) as server, Stage(server) as stage:
        lab = Lab(stage, folder)
        theirs = lab.job()
        done(theirs.conduct())
        with serving(cluster, dsn, **computing(folder)) as here, Stage(here) as ours:
            mine = Lab(ours, folder).job()
            assert done(mine.conduct(wait=25))["conduct"]["succeeded"]
            assert theirs.executions == 0
        with serving(cluster, dsn, **elsewhere):
            assert theirs.ended()["succeeded"] and theirs.executions == 1


# Who may


def test_nobody_tells_the_end_of_a_job_but_who_ran_it(lab: Lab) -> None:
    job = lab.job("waits").started()
    [conduct] = job.conducts
    answer = lab.admin.post(f"{job.path}/conducts/{conduct['conduct_id']}/end", job_status="Succeeded")
    assert denial(answer) == (403, "DeniedByPolicy")
    job.go()
    assert job.ended()["succeeded"]


def test_a_conduct_that_does_not_exist_is_not_found(lab: Lab) -> None:
    job = lab.job()
    answer = lab.admin.get(f"{job.path}/conducts/{uuid4()}")
    assert refusal(answer) == (404, "RunConductNotFoundError")


def test_a_command_of_ones_own_needs_the_setting(lab: Lab, cluster: Cluster, folder: Path) -> None:
    job = lab.job()
    run = lab.things.run()
    command = [sys.executable, "-c", "pass"]
    assert refusal(job.conduct(command=command)) == (400, "InvalidRunConductError")
    assert refusal(lab.admin.post(f"/runs/{run}/conduct", command=command)) == (400, "InvalidRunConductError")
    with (
        serving(cluster, lab.stage.server.dsn, **computing(folder, allow_raw_conduct=True)) as server,
        Stage(server) as stage,
    ):
        conduct = done(stage.admin.post(f"/runs/{run}/conduct", command=command, wait=25))["conduct"]
        assert conduct["succeeded"] and conduct["command"] == command


def test_where_no_program_is_allowed_a_conduct_aborts_its_run_and_says_so(cluster: Cluster) -> None:
    with serving(cluster) as server, Stage(server) as stage:
        lab = Lab(stage, Path("/nowhere"))
        method = lab.things.method()
        lab.launch_by(method, {"base_command": ["true"]})
        run = lab.things.run(lab.things.plan(practice_id=lab.things.practice(method)))
        conduct = done(stage.admin.post(f"/runs/{run}/conduct", wait=25))["conduct"]
        assert conduct["job_key"].startswith("nowhere/") and not conduct["succeeded"]
        assert done(stage.admin.get(f"/runs/{run}"))["status"] == "Aborted"
