"""Random walks over procedures that are driven from outside: every answer is the one that the catalogue foretells."""

from collections import Counter
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

from hypothesis import strategies as st

from beamwright.contexts.enclosure.enclosure import PermitStatus
from beamwright.contexts.operation.procedure import procedures
from beamwright.contexts.operation.procedure_readiness import GetProcedureReadiness
from beamwright.contexts.run.run import runs
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.kernel import wellknown
from beamwright.kernel.roles import ActorKind
from beamwright.runtime.call import Call
from tests.live import Cluster
from tests.runtime.procedure_actions import INTERRUPTED, VISIT_VERBS, ProcedureActions, Workshop
from tests.runtime.procedure_log import ProcedureLog, procedures_foretold, procedures_told
from tests.runtime.procedure_model import OPEN_PROCEDURE, VISIT, WRONG, Task, would_go_on
from tests.runtime.run_actions import Action
from tests.runtime.run_bench import CLEARED_FOR
from tests.runtime.run_model import ACCEPTED, Clearance, Model, Order
from tests.runtime.test_run_walk import (
    ONE_OF_TWO,
    SELDOM,
    SOME,
    WHO,
    RunWalk,
    allowed,
    check_readiness,
    usually,
)
from tests.walks import folds, step, walk

# Which of the assets that procedures are for: two cameras, the unit, two spares and the annex.
TARGETS = st.sets(st.integers(0, 5), max_size=2)
MISTAKES = st.sampled_from([0, 0, 0, 1, 2]).flatmap(
    lambda many: st.sets(st.sampled_from([*WRONG]), min_size=many, max_size=many)
)
VERDICTS = st.sampled_from([True, False, False, None])
PATIENCE = st.sampled_from([None, 1, 2])
# Among the withdrawals, the one of a clearance.
EXPIRY = 0


def again(method: Any, weight: int) -> Any:
    """A step of the walk over runs, so many times as often as one of weight 1 here."""

    def taken(self: RunWalk, **arguments: Any) -> None:
        method(self, **arguments)

    taken.step = (weight, method.step[1])  # type: ignore[attr-defined]
    return taken


class ProcedureWalk(RunWalk):
    """Procedures alone and as phases, held and ended by two persons and an agent, while all around them changes."""

    listed = (procedures, runs)
    tally: ClassVar[Counter[tuple[str, str]]] = Counter()
    bench = Workshop
    tasks: ProcedureActions

    async def furnish(self) -> None:
        await super().furnish()
        self.tally["(walk)", ""] += 1
        self.tasks = ProcedureActions(cast(Workshop, self.acts.station), self.acts)
        beginning = [self.tasks.register_spare() for _ in range(2)]
        beginning += [self.tasks.define_capability(), self.tasks.register_visit()]
        beginning += [self.tasks.register(Task(run_id=id), who) for who, id in enumerate(self.model.runs)]
        for action in beginning:
            assert action.expected(self.model) == ACCEPTED
            await self.do(action.request, action.call)

    async def others(self) -> list[Call]:
        """Another person, and an agent."""
        agent = await self.admitted(wellknown.CLEARANCE_EXPIRER, ActorKind.AGENT)
        return [await self.principal(ActorKind.HUMAN), agent]

    async def told(self) -> dict[str, Any]:
        return await super().told() | await procedures_told(self.app)

    def foretold(self, model: Model) -> dict[str, Any]:
        return super().foretold(model) | procedures_foretold(model)

    def log(self) -> ProcedureLog:
        return ProcedureLog(self.model.kinds)

    def at_the_same_time(self, *actions: Action, overtaken: bool) -> None:
        self.tally["(race)", "overtaken" if overtaken else "together"] += 1
        self.take_at_once(actions, overtaken=overtaken)

    # Choosing

    def procedure_id(self, number: int, *statuses: str) -> UUID:
        """One of the latest of these statuses, or that go on, and no phase of a run that has ended."""
        known, among, over = [*self.model.procedures], statuses or OPEN_PROCEDURE, self.ended()
        likely = [
            id
            for id, each in self.model.procedures.items()
            if each.status in among and each.run_id not in over
        ]
        return usually(number, likely[-4:], known[-8:])

    def visit_id(self, number: int) -> UUID:
        """The latest."""
        known = [*self.model.visits]
        return usually(number, known[-1:], known)

    def spare_ids(self) -> list[UUID]:
        """The latest two."""
        return [*self.model.controllers][-2:]

    def capability_id(self, number: int) -> UUID:
        """One that is for procedures."""
        known = self.model.capabilities
        return usually(number, [id for id, each in known.items() if each == "Procedure"], [*known])

    def targets(self, places: set[int]) -> frozenset[UUID]:
        station = self.tasks.station
        known = [*station.asset_ids, station.unit_id, *self.spare_ids(), station.annex_id]
        return frozenset(known[place] for place in places)

    def order(
        self, values: dict[str, Any], plan: int = 0, subject: int | None = None, campaign: int | None = None
    ) -> Order:
        """As for any run, now and then within a visit."""
        order = super().order(values, plan, subject, campaign)
        return order._replace(visit_id=self.visit_id(plan) if plan % 3 == 1 else None)

    # Procedures

    @step(
        4,
        places=TARGETS,
        run=st.none() | SOME,
        visit=st.none() | SOME,
        capability=st.none() | SOME,
        patience=PATIENCE,
        wrong=MISTAKES,
        who=WHO,
    )
    def register(
        self,
        places: set[int],
        run: int | None,
        visit: int | None,
        capability: int | None,
        patience: int | None,
        wrong: set[str],
        who: int,
    ) -> None:
        task = Task(
            targets=self.targets(places),
            run_id=None if run is None else self.run_id(run),
            visit_id=None if visit is None else self.visit_id(visit),
            capability_id=None if capability is None else self.capability_id(capability),
            patience=patience,
            wrong=frozenset(wrong),
        )
        self.take(self.tasks.register(task, who))

    @step(6, procedure=SOME, who=WHO)
    def start_procedure(self, procedure: int, who: int) -> None:
        self.take(self.tasks.start(self.procedure_id(procedure, "Defined"), who))

    @step(5, procedure=SOME, who=WHO, blank=SELDOM, undecided=SELDOM)
    def hold_procedure(self, procedure: int, who: int, blank: bool, undecided: bool) -> None:
        id = self.procedure_id(procedure)
        self.take(self.tasks.hold(id, who, blank=blank, undecided=undecided))

    @step(4, procedure=SOME, who=WHO)
    def resume_procedure(self, procedure: int, who: int) -> None:
        self.take(self.tasks.resume(self.procedure_id(procedure, "Held"), who))

    @step(3, procedure=SOME, who=WHO, bits=st.integers(0, 7), wrong=SELDOM)
    def resume_procedure_by_name(self, procedure: int, who: int, bits: int, wrong: bool) -> None:
        """Release the claims that the bits choose, and perhaps one that there is not."""
        id = self.procedure_id(procedure, "Held")
        claims = self.run(folds(self.app, procedures))[id].state.hold_claims
        chosen = [claim for place, claim in enumerate(claims.items()) if bits >> place & 1]
        named = {claim_id: claim.held_by for claim_id, claim in chosen}
        self.take(self.tasks.resume(id, who, named | ({uuid4(): uuid4()} if wrong else {})))

    @step(2, procedure=SOME, blank=SELDOM)
    def complete(self, procedure: int, blank: bool) -> None:
        self.take(self.tasks.complete(self.procedure_id(procedure), blank=blank))

    @step(procedure=SOME, blank=SELDOM, immediate=st.booleans())
    def abort(self, procedure: int, blank: bool, immediate: bool) -> None:
        self.take(self.tasks.abort(self.procedure_id(procedure), blank=blank, immediate=immediate))

    @step(2, procedure=SOME, blank=SELDOM, interrupted=st.sampled_from([*INTERRUPTED]))
    def truncate(self, procedure: int, blank: bool, interrupted: str | None) -> None:
        self.take(self.tasks.truncate(self.procedure_id(procedure), blank=blank, interrupted=interrupted))

    @step(3, patience=PATIENCE, verdicts=st.lists(VERDICTS, min_size=1, max_size=4), end=st.integers(0, 3))
    def try_again_and_again(self, patience: int | None, verdicts: list[bool | None], end: int) -> None:
        """Passes of a task that needs nothing, while there is patience; in the last one something happens to it."""
        going = self.about_to_begin(Task(patience=patience), "start")
        id = going.request.procedure_id
        self.take(going)
        for verdict in verdicts:
            index = self.model.procedures[id].passes + 1
            self.take(self.tasks.begin_pass(id, index), self.tasks.end_pass(id, index, verdict))
        tasks, last = self.tasks, self.model.procedures[id].passes + 1
        ends = (tasks.hold(id, 1), tasks.complete(id), tasks.abort(id), tasks.truncate(id))
        self.take(tasks.begin_pass(id, last), ends[end], tasks.end_pass(id, last, False))

    @step(3, procedure=SOME, beyond=st.sampled_from([1, 1, 1, 2]))
    def begin_pass(self, procedure: int, beyond: int) -> None:
        id = self.procedure_id(procedure, "Running")
        self.take(self.tasks.begin_pass(id, self.model.procedures[id].passes + beyond))

    @step(4, procedure=SOME, beyond=st.sampled_from([0, 0, 0, 1]), verdict=VERDICTS, blank=SELDOM)
    def end_pass(self, procedure: int, beyond: int, verdict: bool | None, blank: bool) -> None:
        """The pass that goes on, also of a procedure that is held."""
        under_way = [id for id, each in self.model.procedures.items() if each.current is not None]
        id = usually(procedure, under_way[-4:], [*self.model.procedures][-8:])
        index = max(1, self.model.procedures[id].passes + beyond)
        self.take(self.tasks.end_pass(id, index, verdict, blank=blank))

    # What comes and goes

    start = again(RunWalk.start, 2)
    hold = again(RunWalk.hold, 3)
    resume = again(RunWalk.resume, 2)
    end = again(RunWalk.end, 2)
    limit = again(RunWalk.limit, 1)
    mount = again(RunWalk.mount, 1)
    leave = again(RunWalk.leave, 1)
    observe = again(RunWalk.observe, 3)
    move_supply = again(RunWalk.move_supply, 2)
    declare = again(RunWalk.declare, 1)
    maintain = again(RunWalk.maintain, 1)
    place = again(RunWalk.place, 1)
    expire = again(RunWalk.expire, 1)
    wait = again(RunWalk.wait, 2)

    @step(2, visit=SOME, verb=SOME)
    def move_visit(self, visit: int, verb: int) -> None:
        id = self.visit_id(visit)
        possible = allowed(VISIT_VERBS, VISIT, self.model.visits[id])
        self.take(self.tasks.move_visit(id, usually(verb, possible, [*VISIT_VERBS])))

    @step(spare=ONE_OF_TWO)
    def retire(self, spare: int) -> None:
        self.take(self.tasks.retire(self.spare_ids()[spare]))

    @step(capability=SOME)
    def deprecate_capability(self, capability: int) -> None:
        known = [id for id, each in self.model.capabilities.items() if each != "Method"]
        self.take(self.tasks.deprecate_capability(known[capability % len(known)]))

    @step(2, number=SOME, among=st.integers(0, 5))
    def clear_something(self, number: int, among: int) -> None:
        """A thing or a piece of work, which needs clearances from then on, or has another."""
        model, station = self.model, self.tasks.station
        things = [station.unit_id, *station.asset_ids, *self.spare_ids(), station.annex_id]
        likely = [
            [station.unit_id],
            things,
            [*model.subjects],
            [self.visit_id(0)],
            [self.run_id(number)],
            [self.procedure_id(number, "Defined", *OPEN_PROCEDURE)],
        ][among]
        self.issue(likely[number % len(likely)])

    def issue(self, id: UUID) -> None:
        model = self.model
        of = {
            BindingKind.SUBJECT: model.subjects,
            BindingKind.VISIT: model.visits,
            BindingKind.RUN: model.runs,
            BindingKind.PROCEDURE: model.procedures,
        }
        kind = next((kind for kind, known in of.items() if id in known), BindingKind.ASSET)
        made = self.run(self.followed(self.acts.station.clearance(Binding(kind=kind, id=id))))
        model.clearances[made] = Clearance(id, last=model.waited + CLEARED_FOR)

    @step(5)
    def mend(self) -> None:
        """Put everything right that procedures and runs depend on."""
        super().mend()
        model, tasks = self.model, self.tasks
        for id in {each.bound_to for each in model.clearances.values()} - self.ended():
            if not model.cleared(id):
                self.issue(id)
        if VISIT[model.visits[self.visit_id(0)], "complete"] == "-":
            self.receive_visit()
        if model.visits[self.visit_id(0)] == "OnHold":
            self.take(tasks.move_visit(self.visit_id(0), "resume"))
        while not model.retired.isdisjoint(self.spare_ids()):
            self.take(tasks.register_spare())
        if "Procedure" not in model.capabilities.values():
            self.take(tasks.define_capability())
        if not any(each.status == "Running" for each in model.runs.values()):
            self.take(self.acts.start(self.order({}, 0, 0)))

    def ended(self) -> set[UUID]:
        """The work that needs no clearance any more."""
        over = {id for id, each in self.model.runs.items() if each.status not in OPEN_PROCEDURE}
        return over | {
            id
            for id, each in self.model.procedures.items()
            if each.status not in ("Defined", *OPEN_PROCEDURE)
        }

    def receive_visit(self) -> None:
        """Have a visit that has arrived, if the latest will not."""
        if self.model.visits[self.visit_id(0)] not in ("Planned", "Arrived"):
            self.take(self.tasks.register_visit())
        if self.model.visits[self.visit_id(0)] == "Planned":
            self.take(self.tasks.move_visit(self.visit_id(0), "record-arrival"))

    # At once

    @step(
        8,
        procedure=SOME,
        other=SOME,
        place=ONE_OF_TWO,
        chosen=st.lists(st.integers(0, 19), min_size=2, max_size=3, unique=True),
        overtaken=st.booleans(),
    )
    def run_across_one_another(
        self, procedure: int, other: int, place: int, chosen: list[int], overtaken: bool
    ) -> None:
        """Calls that concern one procedure, its run and its gate, all at once."""
        acts, tasks, id = self.acts, self.tasks, self.procedure_id(procedure, "Defined", *OPEN_PROCEDURE)
        state = self.model.procedures[id]
        run_id = state.run_id or self.run_id(other)
        actions = [
            tasks.start(id),
            tasks.start(id, 1),
            *(tasks.hold(id, who) for who in range(3)),
            *(tasks.resume(id, who) for who in range(3)),
            tasks.begin_pass(id, state.passes + 1),
            tasks.end_pass(id, state.passes or 1, converged := bool(other % 2)),
            tasks.end_pass(id, state.passes or 1, not converged),
            tasks.complete(id),
            tasks.abort(id),
            tasks.truncate(id),
            tasks.register(Task(run_id=run_id)),
            acts.hold(run_id, 0),
            acts.resume(run_id, 0),
            acts.end(run_id, "stop"),
            acts.observe(place, PermitStatus.NOT_PERMITTED),
            acts.expire(self.clearance_id(other)),
        ]
        self.at_the_same_time(*(actions[index] for index in chosen), overtaken=overtaken)

    @step(
        10,
        places=TARGETS,
        subject=st.none() | SOME,
        phase=st.booleans(),
        visit=st.booleans(),
        how=st.sampled_from(["start", "start", "resume", "resume", "register"]),
        place=ONE_OF_TWO,
        # More often what only some depend on.
        withdrawal=st.sampled_from([*range(4), *range(4), *range(14)]),
        number=SOME,
        overtaken=st.sampled_from([True, True, False]),
    )
    def withdraw_while_one_begins(
        self,
        places: set[int],
        subject: int | None,
        phase: bool,
        visit: bool,
        how: str,
        place: int,
        withdrawal: int,
        number: int,
        overtaken: bool,
    ) -> None:
        """What nothing is against, while something is withdrawn that it may rely on."""
        self.mend()
        acts, tasks, visit_id = self.acts, self.tasks, self.visit_id(0) if visit else None
        if phase and subject is not None:
            # Its phases are within the visit of the run without a word.
            self.take(acts.start(self.order({}, 0, subject)._replace(visit_id=visit_id)))
        [run_id, *_] = [id for id in reversed(self.model.runs) if self.model.runs[id].status == "Running"]
        task = Task(
            targets=self.targets(places - {5} if len(places) > 1 else places),
            run_id=run_id if phase else None,
            visit_id=visit_id if subject is None else None,
            capability_id=(capability_id := self.capability_id(0)),
        )
        lapsing = self.clearance_of(task, number) if withdrawal == EXPIRY else self.clearance_id(number)
        going = self.about_to_begin(task, how)
        left = allowed(("hold", "complete", "cancel"), VISIT, self.model.visits[self.visit_id(0)])
        withdrawals = [
            acts.expire(lapsing),
            tasks.move_visit(self.visit_id(0), left[number % len(left)]),
            acts.hold(run_id, 1),
            acts.end(run_id, "abort"),
            tasks.retire(self.spare_ids()[place]),
            tasks.deprecate_capability(capability_id),
            acts.observe(place, PermitStatus.NOT_PERMITTED),
            acts.observe(place, None),
            acts.place(place, 1 - place),
            acts.move_supply(self.supply_id(number), "deregister" if number % 3 else "mark-unavailable"),
            # What procedures do not mind.
            acts.declare(place, "Faulted"),
            acts.maintain(place, "enter"),
            acts.leave(self.subject_id(number), "dismount"),
            acts.limit(self.model.runs[run_id].plan_id, (1, 1)),
        ]
        self.at_the_same_time(going, withdrawals[withdrawal], overtaken=overtaken)

    def clearance_of(self, task: Task, number: int) -> UUID:
        """One of what a task is about or within; as a rule there is no other."""
        subject_id = self.model.runs[task.run_id].subject_id if task.run_id else None
        known = [id for id in (subject_id, task.visit_id, *task.targets) if id is not None]
        bound_to = usually(number, known[:2], known) if known else self.model.unit_id
        if bound_to not in {each.bound_to for each in self.model.clearances.values()}:
            self.issue(bound_to)
        bound = ((id, each) for id, each in self.model.clearances.items() if each.bound_to == bound_to)
        return next(id for id, each in bound if self.model.in_force(each))

    def about_to_begin(self, task: Task, how: str) -> Action:
        """The registration of a new procedure, its start or its resume."""
        registered = self.tasks.register(task)
        if how == "register":
            return registered
        self.take(registered)
        id = cast(UUID, registered.call.new_id)
        if how == "start":
            return self.tasks.start(id)
        self.take(self.tasks.start(id), self.tasks.hold(id, 2))
        return self.tasks.resume(id, 1)

    # Asking

    @step(3, procedure=SOME, who=WHO)
    def ask_whether_one_would_go_on(self, procedure: int, who: int) -> None:
        id = self.procedure_id(procedure, "Defined", "Held")
        readiness = self.call(GetProcedureReadiness(procedure_id=id), self.acts.callers[who])
        check_readiness(readiness, would_go_on(self.model, id, self.acts.principal(who)))


def test_procedures_fare_as_the_catalogue_foretells_whatever_is_called(cluster: Cluster) -> None:
    ProcedureWalk.tally.clear()
    walk(ProcedureWalk, cluster, examples=2, steps=200)
    for (request, answer), count in sorted(ProcedureWalk.tally.items()):
        print(f"{count:5} {request} {answer}")
