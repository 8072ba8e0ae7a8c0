"""Datasets of a served installation: what they may claim, who may trust them, and how doubt spreads."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.interleaving import Meanwhile
from tests.acceptance.stage import Stage, at_once, done, facility, grant, refusal
from tests.acceptance.things import Things
from tests.live import Cluster, serving

ROUNDS = 12


@pytest.fixture(scope="module")
def things(stage: Stage) -> Things:
    return Things(stage)


class Pinned:
    """A run that has pinned a revision."""

    def __init__(self, things: Things) -> None:
        self.calibration = things.calibration()
        self.revision = things.revision(self.calibration)
        self.run = things.run(pinned_calibration_ids=[self.revision])

    @property
    def withdrawing(self) -> str:
        return f"/calibrations/{self.calibration}/revisions/{self.revision}/withdraw"

    @property
    def cause(self) -> tuple[str, str]:
        return "CalibrationRevisionWithdrawn", self.revision


@pytest.fixture
def pinned(things: Things) -> Pinned:
    return Pinned(things)


def read(stage: Stage, dataset: str) -> dict[str, Any]:
    return done(stage.admin.get(f"/datasets/{dataset}"))


def promote(stage: Stage, dataset: str) -> httpx.Response:
    return stage.admin.post(f"/datasets/{dataset}/promote", reason="good")


def produced(things: Things, **fields: Any) -> str:
    """A dataset in production."""
    dataset = things.dataset(**fields)
    done(promote(things.stage, dataset))
    return dataset


def causes(stage: Stage, dataset: str) -> set[tuple[str, str | None]]:
    return {(cause["kind"], cause["id"]) for cause in read(stage, dataset)["suspect_causes"]}


def until(holds: Callable[[], bool]) -> None:
    """Wait for the reaction."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def carried(stage: Stage, cause: tuple[str, str], datasets: Iterable[str]) -> None:
    """Every one of these carries the cause, once the reaction has come."""
    for dataset in datasets:
        until(lambda dataset=dataset: cause in causes(stage, dataset))


# Registration


def test_a_dataset_used_only_what_its_run_pinned(stage: Stage, things: Things) -> None:
    calibration = things.calibration()
    first, second, third = (things.revision(calibration) for _ in range(3))
    run = things.run(pinned_calibration_ids=[first, second])
    body = {"producing_run_id": run, "used_calibration_ids": [first, third]}
    with pytest.raises(AssertionError, match="DatasetCalibrationsNotPinnedError") as refused:
        things.dataset(**body)
    assert third in str(refused.value)
    shown = read(stage, things.dataset(**body | {"used_calibration_ids": [first]}))
    assert (shown["intent"], shown["status"], shown["used_calibration_ids"]) == (
        "Trial",
        "Registered",
        [first],
    )


def test_a_dataset_belongs_where_its_run_belongs(stage: Stage, things: Things) -> None:
    visit, subject = stage.visit_in_progress(), things.subject()
    asset = things.active(things.unit())
    done(stage.admin.post(f"/subjects/{subject}/mount", asset_id=asset, reason="next"))
    run = things.run(things.plan(asset), visit_id=visit, subject_id=subject)
    shown = read(stage, things.dataset(producing_run_id=run))
    assert (shown["facility_code"], shown["visit_id"], shown["subject_id"]) == ("home", visit, subject)


def test_every_unknown_parent_is_named(stage: Stage, things: Things) -> None:
    unknown = sorted(str(uuid4()) for _ in range(2))
    with pytest.raises(AssertionError, match="DatasetNotFoundError") as refused:
        things.dataset(derived_from=[things.dataset(), *unknown])
    assert all(id in str(refused.value) for id in unknown)


def test_a_list_finds_datasets_by_what_they_are_and_came_from(
    stage: Stage, things: Things, pinned: Pinned
) -> None:
    parent = things.dataset()
    given = {
        "derived_from": [parent],
        "producing_run_id": pinned.run,
        "used_calibration_ids": [pinned.revision],
        "checksum": {"algorithm": "sha256", "value": "a" * 64},
        "encoding": {"media_type": "image/tiff"},
        "keywords": ["basalt"],
    }
    child = things.dataset(**given)
    for asked in (
        {"derived_from": parent},
        {"used_calibration_id": pinned.revision, "role": "Processed"},
        {"producing_run_id": pinned.run, "suspect": False},
        {"checksum": "a" * 64, "media_type": "image/tiff", "sort": "byte_size"},
        {"q": "basalt", "intent": "Trial"},
    ):
        until(lambda asked=asked: listed(stage, **asked) == [child])
    assert listed(stage, derived_from=parent, suspect=True) == []


def listed(stage: Stage, **filters: Any) -> list[str]:
    return [item["id"] for item in done(stage.admin.get("/datasets", **filters))["items"]]


def test_what_is_discarded_stays_as_it_is(stage: Stage, things: Things) -> None:
    dataset = things.dataset()
    done(stage.admin.post(f"/datasets/{dataset}/discard", reason="a test"))
    assert refusal(stage.admin.post(f"/datasets/{dataset}/describe", name="x")) == (
        409,
        "DatasetCannotDescribeError",
    )
    with pytest.raises(AssertionError, match="DatasetParentDiscardedError"):
        things.dataset(derived_from=[dataset])


# Trust


def test_a_dataset_is_promoted_when_its_run_is_completed(stage: Stage, things: Things) -> None:
    run = things.run()
    dataset = things.dataset(producing_run_id=run)
    assert refusal(promote(stage, dataset)) == (409, "DatasetRunNotCompletedError")
    done(stage.admin.post(f"/runs/{run}/complete"))
    assert done(promote(stage, dataset))["events"] == ["DatasetPromoted"]
    event = done(stage.admin.get(f"/datasets/{dataset}/events"))["items"][-1]["payload"]
    assert (event["producing_run_status"], read(stage, dataset)["intent"]) == ("Completed", "Production")


@pytest.fixture(scope="module")
def simulating(cluster: Cluster) -> Iterator[Things]:
    """An installation whose jobs only seem to run."""
    with serving(cluster, compute_substrate="memory") as server, Stage(server) as stage:
        yield Things(stage)


def test_what_was_simulated_is_not_promoted(simulating: Things) -> None:
    stage, method = simulating.stage, simulating.method()
    spec = {"base_command": ["reconstruct"]}
    done(stage.admin.post(f"/methods/{method}/update-launch-spec", launch_spec=spec))
    run = simulating.run(simulating.plan(practice_id=simulating.practice(method)))
    dataset = simulating.dataset(producing_run_id=run)
    done(stage.admin.post(f"/runs/{run}/conduct", wait=25))
    shown = done(stage.admin.get(f"/runs/{run}"))
    assert (shown["status"], shown["actuation_kind"]) == ("Completed", "Simulated")
    assert refusal(promote(stage, dataset)) == (409, "DatasetActuationNotPhysicalError")


def test_nothing_is_trusted_more_than_what_it_is_derived_from(stage: Stage, things: Things) -> None:
    parent = things.dataset()
    child = things.dataset(derived_from=[parent])
    refused = promote(stage, child)
    assert refusal(refused) == (409, "DatasetParentNotProductionError") and parent in refused.text
    done(promote(stage, parent))
    assert promote(stage, child).status_code == 200


# Doubt


def test_a_retraction_reaches_all_that_is_derived(stage: Stage, things: Things) -> None:
    raw = produced(things)
    child = produced(things, derived_from=[raw])
    grandchild = things.dataset(derived_from=[child])
    done(stage.admin.post(f"/datasets/{raw}/demote", reason="the shutter was closed"))
    carried(stage, ("DatasetRetracted", raw), [child, grandchild])
    assert read(stage, child)["intent"] == "Production", "nothing is demoted by itself"
    refused = promote(stage, grandchild)
    assert refusal(refused) == (409, "DatasetSuspectError") and raw in refused.text
    [marked] = [
        item
        for item in done(stage.admin.get(f"/datasets/{child}/events"))["items"]
        if item["event_type"] == "DatasetMarkedSuspect"
    ]
    assert marked["payload"]["trigger"] == "Auto" and marked["causation_id"] is not None


def test_a_person_clears_a_cause_with_a_reason(stage: Stage, things: Things) -> None:
    raw = produced(things)
    child = things.dataset(derived_from=[raw])
    done(stage.admin.post(f"/datasets/{raw}/discard", reason="disk full"))
    cause = ("DatasetDiscarded", raw)
    carried(stage, cause, [child])
    body = {"cause_kind": cause[0], "cause_id": cause[1], "reason": "it was read before"}
    done(stage.admin.post(f"/datasets/{child}/suspicion/clear", **body))
    again = stage.admin.post(f"/datasets/{child}/suspicion/clear", **body)
    assert refusal(again) == (409, "DatasetCannotClearSuspicionError")
    assert (read(stage, child)["suspect"], promote(stage, child).status_code) == (False, 200)


def test_a_report_comes_and_goes_with_its_dataset(stage: Stage, things: Things) -> None:
    raw = things.dataset()
    child = things.dataset(derived_from=[raw])
    report = {"cause_kind": "OperatorReport", "reason": "the detector was warm"}
    done(stage.admin.post(f"/datasets/{raw}/suspicion/mark", **report))
    inherited = things.dataset(derived_from=[raw])
    assert causes(stage, inherited) == {("DatasetSuspect", raw)}
    below = [child, things.dataset(derived_from=[child]), inherited]
    carried(stage, ("DatasetSuspect", raw), below)
    done(stage.admin.post(f"/datasets/{raw}/suspicion/clear", **report | {"reason": "it was not"}))
    for dataset in below:
        until(lambda dataset=dataset: not read(stage, dataset)["suspect"])


def test_a_withdrawn_revision_makes_its_datasets_suspect(
    stage: Stage, things: Things, pinned: Pinned
) -> None:
    used = {"producing_run_id": pinned.run, "used_calibration_ids": [pinned.revision]}
    dataset = things.dataset(**used)
    child = things.dataset(derived_from=[dataset])
    uses = done(stage.admin.get(f"/calibration-revisions/{pinned.revision}/uses"))
    assert [each["id"] for each in uses["datasets"]] == [dataset]
    done(stage.admin.post(f"/runs/{pinned.run}/complete"))
    done(stage.admin.post(pinned.withdrawing, reason="wrong"))
    carried(stage, pinned.cause, [dataset, child])
    assert refusal(promote(stage, dataset)) == (409, "DatasetSuspectError")
    assert causes(stage, things.dataset(**used)) == {pinned.cause}, "born with it"


def test_a_revision_is_computed_from_a_dataset(stage: Stage, things: Things) -> None:
    calibration, dataset = things.calibration(), things.dataset()
    source = {"kind": "Computed", "id": dataset}
    assert things.revision(calibration, source=source)
    body = {"value": {"offset": 0.5}, "source": source | {"id": str(uuid4())}}
    answer = stage.admin.post(f"/calibrations/{calibration}/revisions/append", **body)
    assert refusal(answer) == (404, "DatasetNotFoundError")


# Provenance


def graph(stage: Stage, dataset: str, **asked: Any) -> dict[str, Any]:
    return done(stage.admin.get(f"/datasets/{dataset}/provenance", **asked))


def placed(shown: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {node["id"]: (node["kind"], node["depth"]) for node in shown["nodes"]}


def related(shown: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(edge["from"], edge["relation"], edge["to"]) for edge in shown["edges"]}


def test_provenance_names_all_that_a_dataset_came_from(stage: Stage, things: Things, pinned: Pinned) -> None:
    subject = things.subject()
    raw = things.dataset(
        producing_run_id=pinned.run, used_calibration_ids=[pinned.revision], subject_id=subject
    )
    child = things.dataset(derived_from=[raw])
    procedure = things.procedure()
    last = things.dataset(derived_from=[child, raw], producing_procedure_id=procedure)
    up = graph(stage, last)
    assert placed(up) == {
        last: ("Dataset", 0),
        child: ("Dataset", 1),
        raw: ("Dataset", 1),
        procedure: ("Procedure", 1),
        pinned.run: ("Run", 2),
        subject: ("Subject", 3),
        pinned.revision: ("CalibrationRevision", 3),
    }
    assert related(up) == {
        (last, "wasDerivedFrom", child),
        (last, "wasDerivedFrom", raw),
        (last, "wasGeneratedBy", procedure),
        (child, "wasDerivedFrom", raw),
        (raw, "wasGeneratedBy", pinned.run),
        (pinned.run, "used", subject),
        (pinned.run, "used", pinned.revision),
    }
    assert (up["root"], up["truncated"], up["hidden_count"]) == (last, False, 0)
    assert set(placed(graph(stage, raw, direction="down"))) == {raw, child, last}
    assert set(placed(graph(stage, child, direction="both"))) == set(placed(up)) - {procedure}
    assert len(related(graph(stage, child, direction="both"))) == 6


@pytest.mark.parametrize(("direction", "first"), [("up", -1), ("down", 0)])
def test_provenance_ends_at_the_depth_asked_for(
    stage: Stage, things: Things, direction: str, first: int
) -> None:
    chain = [things.dataset()]
    for _ in range(3):
        chain.append(things.dataset(derived_from=chain[-1:]))
    for depth, truncated in ((2, True), (3, False)):
        shown = graph(stage, chain[first], direction=direction, depth=depth)
        assert (len(shown["nodes"]), shown["truncated"]) == (depth + 1, truncated)


def test_provenance_leaves_out_what_the_caller_may_not_read(stage: Stage, things: Things) -> None:
    there = stage.site()
    hidden = things.dataset(facility_code=there, derived_from=[things.dataset(facility_code=there)])
    dataset = things.dataset(derived_from=[hidden])
    reader = stage.person()
    stage.policy(grant("data:@reads", scope=facility("home")), to=reader)
    shown = done(reader.get(f"/datasets/{dataset}/provenance"))
    assert (set(placed(shown)), shown["edges"], shown["hidden_count"]) == ({dataset}, [], 1)
    assert refusal(reader.get(f"/datasets/{hidden}")) == (404, "DatasetNotFoundError")
    below = done(stage.admin.get(f"/datasets/{hidden}/provenance", direction="down"))
    assert set(placed(below)) == {hidden, dataset}


# Races


def test_a_child_decided_before_a_retraction_is_decided_anew(
    stage: Stage, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = produced(things)
    meanwhile = Meanwhile(stage.server, monkeypatch)
    meanwhile.within("register_dataset", stage.admin, f"/datasets/{parent}/demote", reason="wrong")
    child = things.dataset(derived_from=[parent])
    assert meanwhile.answers[0].status_code == 200
    assert causes(stage, child) == {("DatasetRetracted", parent)}


def test_a_user_decided_before_a_withdrawal_is_decided_anew(
    stage: Stage, things: Things, pinned: Pinned, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = Meanwhile(stage.server, monkeypatch)
    meanwhile.within("register_dataset", stage.admin, pinned.withdrawing, reason="wrong")
    dataset = things.dataset(producing_run_id=pinned.run, used_calibration_ids=[pinned.revision])
    assert meanwhile.answers[0].status_code == 200
    assert causes(stage, dataset) == {pinned.cause}


def test_no_descendant_slips_through_a_retraction(stage: Stage, things: Things) -> None:
    """Lines of descent go on growing while the dataset that they begin with is retracted."""

    def line(parent: str) -> list[str]:
        grown = [parent]
        for _ in range(6):
            grown.append(things.dataset(derived_from=grown[-2:]))
        return grown[1:]

    for _ in range(ROUNDS):
        raw = produced(things)
        parents = [raw, things.dataset(derived_from=[raw]), things.dataset(derived_from=[raw])]
        with ThreadPoolExecutor(4) as pool:
            lines = [pool.submit(line, parent) for parent in parents]
            demoted = pool.submit(stage.admin.post, f"/datasets/{raw}/demote", reason="wrong")
            done(demoted.result())
            grown = [dataset for each in lines for dataset in each.result()]
        carried(stage, ("DatasetRetracted", raw), [*parents[1:], *grown])


def test_no_user_slips_through_a_withdrawal(stage: Stage, things: Things) -> None:
    for _ in range(ROUNDS):
        pinned = Pinned(things)
        body = {"producing_run_id": pinned.run, "used_calibration_ids": [pinned.revision]}
        made: list[str] = []

        def used(body: dict[str, Any] = body, made: list[str] = made) -> httpx.Response:
            made.append(things.dataset(**body))
            made.append(things.dataset(derived_from=made[-1:]))
            return stage.admin.get(f"/datasets/{made[-1]}")

        def withdraw(path: str = pinned.withdrawing) -> httpx.Response:
            return stage.admin.post(path, reason="wrong")

        answers = at_once(used, used, withdraw, used, used)
        assert {answer.status_code for answer in answers} == {200} and len(made) == 8
        carried(stage, pinned.cause, made)
