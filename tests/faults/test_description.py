"""Requests generated from the description, right and wrong, alone and one after the other: each is answered as described."""

import time
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode

from tests.faults.attacked import Attacked, Tally
from tests.faults.form import record, seeded, sized
from tests.faults.places import OPERATIONS
from tests.faults.scene import ROUTER, RecordingStage, Target, in_order
from tests.surfaces.test_hostile import WANTED, schema

PER_TARGET = 40


def fixed(examples: int, **more: Any) -> settings:
    """What is generated, it is not shrunk: the seed finds it again, and shrinking would take minutes."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        **more,
    )


class Visitor:
    """Sends what was generated, mostly to objects that exist."""

    def __init__(self, service: Attacked, stage: RecordingStage) -> None:
        self.service = service
        self.stage = stage
        self.tally = Tally()
        self.sent = 0

    def visit(self, operation: Any, mode: GenerationMode, examples: int, seed: int) -> None:
        @hypothesis.seed(seed)
        @fixed(examples)
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            self.send(case)

        send()

    def send(self, case: schemathesis.Case) -> None:
        known = ROUTER.find(case.operation.path)[0][case.method.upper()]
        self.sent += 1
        if known.path_fields and self.sent % 4:
            real = self.target.request(known)
            case.path_parameters = {field: real[field] for field in known.path_fields}
        headers = {"authorization": f"Bearer {self.service.token(self.stage.subject(known))}"}
        began = time.perf_counter()
        answer = case.call(base_url=self.service.url, headers=headers, timeout=20)
        self.tally.note(
            known.name,
            answer.status_code,
            time.perf_counter() - began,
            answer.content.decode(errors="replace"),
        )
        case.validate_response(answer, checks=WANTED)


def test_generated_requests_are_answered_as_described(service: Attacked) -> None:
    seed, dice = seeded()
    print(f"FAULTS_SEED={seed}")
    described = {
        ROUTER.find(each.path)[0][each.method.upper()].name: each
        for each in (found.ok() for found in schema.get_all_operations())
    }
    assert set(described) == set(OPERATIONS), "an operation is not described"
    names = in_order(sized(short=dice.sample(sorted(described), 8), long=sorted(described)))
    with RecordingStage(service) as stage:
        visitor = Visitor(service, stage)
        Target(stage)
        before = service.footprint()
        for number, name in enumerate(names):
            if number % PER_TARGET == 0:
                visitor.target = Target(stage)
            for mode in GenerationMode:
                visitor.visit(described[name], mode, sized(short=3, long=12), seed)
    visitor.tally.check()
    after = service.settled(before, sized(short=40, long=100))
    sizes = {"memory_before_mb": before.memory // 10**6, "memory_after_mb": after.memory // 10**6}
    record("generated requests", seed=seed, **visitor.tally.figures(), **sizes)


def test_requests_that_use_what_others_answered_are_answered_as_described(service: Attacked) -> None:
    seed, _ = seeded()
    print(f"FAULTS_SEED={seed}")
    tally = Tally()
    headers = {"authorization": f"Bearer {service.token()}"}

    class Workflow(schema.as_state_machine()):
        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
            return {"base_url": service.url, "headers": headers, "timeout": 20}

        def validate_response(self, response: Any, case: schemathesis.Case, **_: Any) -> None:
            seconds = (
                response.elapsed if isinstance(response.elapsed, float) else response.elapsed.total_seconds()
            )
            tally.note(f"{case.method} {case.path}", response.status_code, seconds, response.text)
            case.validate_response(response, checks=WANTED)

    batches, runs, steps = sized(short=(1, 2, 4), long=(10, 4, 25))
    cut_short = 0
    for number in range(batches):
        hypothesis.seed(seed + number)(Workflow)
        try:
            run_state_machine_as_test(Workflow, settings=fixed(runs, stateful_step_count=steps))
        except FlakyStrategyDefinition:
            # What the service answers depends on what was done to it; the generator would have it always the same.
            cut_short += 1
    tally.check()
    assert tally.sent > 0
    record("generated sequences", seed=seed, **tally.figures(), sequences=batches * runs, cut_short=cut_short)
