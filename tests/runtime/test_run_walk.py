"""Random walks over runs: every answer is the one that the catalogue's grids foretell, also of calls at once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from beamwright.contexts.access.actor import RegisterActor
from beamwright.contexts.campaign.campaign import campaigns
from beamwright.contexts.campaign.campaign_reads import CampaignListStatus, GetCampaignProgress
from beamwright.contexts.enclosure.enclosure import PermitStatus, enclosures
from beamwright.contexts.run.plan_outcome import GetPlanOutcome
from beamwright.contexts.run.readiness import CheckRunReadiness, GetRunReadiness, Readiness
from beamwright.contexts.run.run import runs
from beamwright.contexts.safety.values import Binding, BindingKind
from beamwright.contexts.subject.subject import subjects
from beamwright.contexts.supply.supply import supplies
from beamwright.contexts.trust.granting import AddPolicyPrincipal
from beamwright.kernel import wellknown
from beamwright.kernel.authority import Caller
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from beamwright.runtime.call import Call
from tests.live import Cluster
from tests.runtime.run_actions import (
    CAMPAIGN_VERBS,
    CONDITIONS,
    ENDS,
    LEAVING,
    MAINTENANCE,
    SUPPLY_VERBS,
    Action,
    Actions,
    answered,
    histories,
)
from tests.runtime.run_bench import A_WHILE, AT_FIRST, CLEARED_FOR, UNITS, Bench
from tests.runtime.run_log import Log, check_log, foretold, told
from tests.runtime.run_model import (
    ACCEPTED,
    CAMPAIGN,
    HEARD_FOR,
    JOINABLE,
    OPEN_RUN,
    OUTCOMES,
    SUPPLY,
    Clearance,
    Model,
    Order,
)
from tests.runtime.test_projector import ADMINISTRATOR
from tests.walks import Walk, check_list, folds, listed, step, walk

SOME = st.integers(0, 1023)
WHO = st.integers(0, 2)
ONE_OF_TWO = st.integers(0, 1)
SELDOM = st.integers(0, 7).map(lambda number: number == 7)
VALUES = st.sampled_from([{}, {}, {}, {"exposure": 1}, {"exposure": 2}, {"gain": 1}])
PATCHES = st.sampled_from(
    [{}, {"exposure": 1}, {"exposure": 2}, {"exposure": None}, {"gain": 1}, {"gain": 2}]
)
PERMITS = st.sampled_from([PermitStatus.PERMITTED, PermitStatus.PERMITTED, *PermitStatus, None])
# Always; only now; only after a while.
WINDOWS = st.sampled_from([None, (0, 0), (1, 2)])
# The next verb on the way back to Available, by status, nearest first.
BACK = {
    "Unknown": "mark-available",
    "Recovering": "restore",
    "Degraded": "restore",
    "Unavailable": "mark-recovering",
}


def usually[T](number: int, likely: Sequence[T], known: Sequence[T]) -> T:
    """One of the likely; of all that are known now and then, or if there are none."""
    among = known if number % 4 == 3 or not likely else likely
    return among[number // 4 % len(among)]


def allowed(verbs: Iterable[str], grid: Mapping[tuple[str, str], str], status: str) -> list[str]:
    return [verb for verb in verbs if grid[status, verb] != "-"]


class RunWalk(Walk):
    """Runs of a plan, held and ended by three principals, in campaigns, under permits that come and go."""

    listed = (runs, subjects, enclosures, supplies)
    configured = {"enclosure_stale_after": (HEARD_FOR + 0.5) * A_WHILE}
    # How often each request was answered how.
    tally: ClassVar[Counter[tuple[str, str]]] = Counter()
    bench: ClassVar[type[Bench]] = Bench
    acts: Actions
    model: Model

    async def furnish(self) -> None:
        bench = self.bench(self.app)
        self.model = await bench.furnish()
        self.acts = Actions(bench, [ADMINISTRATOR, *await self.others()])
        beginning = [self.acts.register_campaign(code) for code in ("home", "home", "area")]
        beginning += [self.acts.start(self.order({}), who) for who in range(2)]
        for action in beginning:
            assert action.expected(self.model) == ACCEPTED
            await self.do(action.request, action.call)

    async def others(self) -> list[Call]:
        """Another person, and one who supervises."""
        return [await self.principal(kind) for kind in (ActorKind.HUMAN, ActorKind.SERVICE_ACCOUNT)]

    async def principal(self, kind: ActorKind) -> Call:
        """Somebody else who may do everything."""
        made = await self.do(RegisterActor(name="Somebody", kind=kind))
        return await self.admitted(made.actor_id, kind)

    async def admitted(self, actor_id: UUID, kind: ActorKind) -> Call:
        policy_id = wellknown.ADMINISTRATOR_POLICY
        await self.do(AddPolicyPrincipal(policy_id=policy_id, principal_id=actor_id))
        return replace(ADMINISTRATOR, caller=Caller(principal_id=actor_id, kind=kind))

    # Calling

    def take(self, *actions: Action) -> None:
        """Calls one after the other, each answered as the model says."""
        for action in actions:
            expected = action.expected(self.model)
            answer = answered(self.outcome(action.request, action.call))
            self.tally[type(action.request).__name__, answer] += 1
            assert answer == expected

    def take_at_once(self, actions: Sequence[Action], *, overtaken: bool) -> None:
        """Calls at once, answered as if one had come after the other, in some order."""
        requests, calls = [each.request for each in actions], [each.call for each in actions]
        answers = list(map(answered, self.at_once(*requests, calls=calls, overtaken=overtaken)))
        self.tally.update(zip([type(each).__name__ for each in requests], answers, strict=True))
        known = list(histories(self.model, actions))
        possible = [left for expected, left in known if expected == answers]
        assert possible, (answers, [expected for expected, _ in known])
        found = self.run(self.told())
        # If none of them left the log as it is, the invariant says in what the first differs.
        self.model = next((left for left in possible if self.foretold(left) == found), possible[0])

    async def told(self) -> dict[str, Any]:
        return await told(self.app)

    def foretold(self, model: Model) -> dict[str, Any]:
        return foretold(model)

    # Choosing

    def run_id(self, number: int, *statuses: str) -> UUID:
        """A run of one of these statuses, or one that goes on."""
        likely = [id for id, run in self.model.runs.items() if run.status in (statuses or OPEN_RUN)]
        return usually(number, likely, [*self.model.runs])

    def campaign_id(self, number: int) -> UUID:
        return [*self.model.campaigns][number % len(self.model.campaigns)]

    def covering(self, number: int) -> UUID:
        """A campaign that covers the runs, and takes more of them."""
        known = {id: each for id, each in self.model.campaigns.items() if each.covers}
        return usually(number, [id for id, each in known.items() if each.status in JOINABLE], [*known])

    def subject_id(self, number: int) -> UUID:
        return self.acts.station.subject_ids[number % 2]

    def supply_id(self, number: int) -> UUID:
        """One that is available."""
        known = self.model.supplies
        return usually(number, [id for id, each in known.items() if each.status == "Available"], [*known])

    def clearance_id(self, number: int) -> UUID:
        """One in force."""
        known = self.model.clearances
        return usually(number, [id for id, each in known.items() if self.model.in_force(each)], [*known])

    def plan_id(self, number: int = 0) -> UUID:
        """The latest."""
        known = [*self.model.plans]
        return usually(number, known[-1:], known)

    # Runs

    @step(4, values=VALUES, plan=SOME, subject=st.none() | SOME, campaign=st.none() | SOME, who=WHO)
    def start(
        self, values: dict[str, Any], plan: int, subject: int | None, campaign: int | None, who: int
    ) -> None:
        self.take(self.acts.start(self.order(values, plan, subject, campaign), who))

    def order(
        self, values: dict[str, Any], plan: int = 0, subject: int | None = None, campaign: int | None = None
    ) -> Order:
        return Order(
            plan_id=self.plan_id(plan),
            parameters=values,
            subject_id=None if subject is None else self.subject_id(subject),
            campaign_id=None if campaign is None else self.covering(campaign),
        )

    @step(6, run=SOME, who=WHO, blank=SELDOM)
    def hold(self, run: int, who: int, blank: bool) -> None:
        self.take(self.acts.hold(self.run_id(run), who, blank=blank))

    @step(4, run=SOME, who=WHO)
    def resume(self, run: int, who: int) -> None:
        self.take(self.acts.resume(self.run_id(run, "Held"), who))

    @step(3, run=SOME, who=WHO, bits=st.integers(0, 7), wrong=st.booleans())
    def resume_by_name(self, run: int, who: int, bits: int, wrong: bool) -> None:
        """Release the claims that the bits choose."""
        run_id = self.run_id(run, "Held")
        claims = self.run(folds(self.app, runs))[run_id].state.hold_claims
        chosen = [claim for place, claim in enumerate(claims.items()) if bits >> place & 1]
        named = self.acts.resume_by_name(run_id, chosen, who)
        self.take(self.acts.resume_by_a_wrong_name(run_id, who) if wrong else named)

    @step(4, run=SOME, verb=st.sampled_from([*ENDS]), blank=SELDOM, future=st.booleans())
    def end(self, run: int, verb: str, blank: bool, future: bool) -> None:
        self.take(self.acts.end(self.run_id(run), verb, blank=blank, future=future))

    @step(3, run=SOME, patch=PATCHES, blank=SELDOM)
    def adjust(self, run: int, patch: dict[str, Any], blank: bool) -> None:
        self.take(self.acts.adjust(self.run_id(run), patch, blank=blank))

    # Campaigns

    @step(4, campaign=SOME, verb=SOME, blank=SELDOM)
    def move_campaign(self, campaign: int, verb: int, blank: bool) -> None:
        id = self.campaign_id(campaign)
        possible = allowed(CAMPAIGN_VERBS, CAMPAIGN, self.model.campaigns[id].status)
        self.take(self.acts.move_campaign(id, usually(verb, possible, [*CAMPAIGN_VERBS]), blank=blank))

    @step(code=st.sampled_from(["home", "area"]))
    def register_campaign(self, code: str) -> None:
        self.take(self.acts.register_campaign(code))

    @step(3, campaign=SOME, run=SOME)
    def join(self, campaign: int, run: int) -> None:
        self.take(self.acts.add(self.campaign_id(campaign), self.run_id(run)))

    @step(2, campaign=SOME, run=SOME, blank=SELDOM)
    def part(self, campaign: int, run: int, blank: bool) -> None:
        """A run leaves its campaign; or one that it may not be in."""
        run_id = self.run_id(run)
        own = self.model.runs[run_id].campaign_id if campaign % 4 else None
        self.take(self.acts.remove(own or self.campaign_id(campaign), run_id, blank=blank))

    # Plans and subjects

    @step(2, plan=SOME, window=WINDOWS)
    def limit(self, plan: int, window: tuple[int, int] | None) -> None:
        self.take(self.acts.limit(self.plan_id(plan), window))

    @step(plan=SOME)
    def deprecate(self, plan: int) -> None:
        self.take(self.acts.deprecate(self.plan_id(plan)))

    @step(2, names=st.sampled_from([AT_FIRST, frozenset(UNITS)]))
    def take_parameters(self, names: frozenset[str]) -> None:
        self.take(self.acts.take_parameters(names))

    @step(2, subject=SOME, asset=ONE_OF_TWO)
    def mount(self, subject: int, asset: int) -> None:
        self.take(self.acts.mount(self.subject_id(subject), asset))

    @step(2, subject=SOME, run=SOME)
    def measure(self, subject: int, run: int) -> None:
        """By hand what a reaction does otherwise, by a run about the subject as a rule."""
        about = [id for id, each in self.model.runs.items() if each.subject_id]
        run_id = usually(run, about, [*self.model.runs])
        own = self.model.runs[run_id].subject_id if subject % 4 else None
        self.take(self.acts.measure(own or self.subject_id(subject), run_id))

    @step(2, subject=SOME, verb=st.sampled_from([*LEAVING]))
    def leave(self, subject: int, verb: str) -> None:
        """One that a run goes on about, which forbids it."""
        runs = [each for each in self.model.runs.values() if each.status in OPEN_RUN]
        busy = [each.subject_id for each in runs if each.subject_id]
        self.take(self.acts.leave(usually(subject, busy, self.acts.station.subject_ids), verb))

    @step(subject=SOME)
    def receive(self, subject: int) -> None:
        self.take(self.acts.receive(self.subject_id(subject)))

    # What comes and goes

    @step(2, place=ONE_OF_TWO, status=PERMITS)
    def observe(self, place: int, status: PermitStatus | None) -> None:
        self.take(self.acts.observe(place, status))

    @step(3, supply=SOME, verb=SOME)
    def move_supply(self, supply: int, verb: int) -> None:
        id = self.supply_id(supply)
        possible = allowed(SUPPLY_VERBS, SUPPLY, self.model.supplies[id].status)
        self.take(self.acts.move_supply(id, usually(verb, possible, [*SUPPLY_VERBS])))

    @step(kind=ONE_OF_TWO)
    def register_supply(self, kind: int) -> None:
        self.take(self.acts.register_supply(sorted(self.model.kinds)[kind]))

    @step(asset=ONE_OF_TWO, condition=st.sampled_from([*CONDITIONS]))
    def declare(self, asset: int, condition: str) -> None:
        self.take(self.acts.declare(asset, condition))

    @step(asset=ONE_OF_TWO, verb=st.sampled_from([*MAINTENANCE]))
    def maintain(self, asset: int, verb: str) -> None:
        self.take(self.acts.maintain(asset, verb))

    @step(asset=ONE_OF_TWO, place=st.none() | ONE_OF_TWO)
    def place(self, asset: int, place: int | None) -> None:
        self.take(self.acts.place(asset, place))

    @step(thing=st.none() | SOME)
    def clear(self, thing: int | None) -> None:
        """One more clearance of the unit, or of a subject, which needs one from then on."""
        self.issue(self.model.unit_id if thing is None else self.subject_id(thing))

    def issue(self, id: UUID) -> None:
        kind = BindingKind.ASSET if id == self.model.unit_id else BindingKind.SUBJECT
        made = self.run(self.followed(self.acts.station.clearance(Binding(kind=kind, id=id))))
        self.model.clearances[made] = Clearance(id, last=self.model.waited + CLEARED_FOR)

    @step(clearance=SOME, who=WHO)
    def expire(self, clearance: int, who: int) -> None:
        self.take(self.acts.expire(self.clearance_id(clearance), who))

    @step(3)
    def wait(self) -> None:
        """Time passes, and what is not heard again in it is doubted."""
        self.clock.ahead += A_WHILE
        self.model.waited += 1

    @step(6)
    def mend(self) -> None:
        """Put everything right, so that runs start again."""
        acts, model = self.acts, self.model
        for place, id in enumerate(acts.station.enclosure_ids):
            if not model.believed(model.permits[id]):
                self.take(acts.observe(place, PermitStatus.PERMITTED))
        for asset, id in enumerate(model.bound):
            if model.conditions.get(id) == "Faulted":
                self.take(acts.declare(asset, "Nominal"))
            if id in model.in_maintenance:
                self.take(acts.maintain(asset, "exit"))
        for kind in sorted(model.kinds):
            self.supply(kind)
        for id in (model.unit_id, *model.subjects):
            if not model.cleared(id):
                self.issue(id)
        if model.plans[self.plan_id()].deprecated:
            self.take(acts.define_plan())
        if model.plans[self.plan_id()].window is not None:
            self.take(acts.limit(self.plan_id(), None))
        if not any(each.covers and each.status in JOINABLE for each in model.campaigns.values()):
            self.take(acts.register_campaign("home"))
        for id in model.subjects:
            self.put_up(id)

    def supply(self, kind: str) -> None:
        """Bring one of a kind back, or have one more, unless there is one."""
        while "Available" not in (known := self.model.supplied(kind)):
            way = next((status for status in BACK if status in known), None)
            if way is None:
                self.take(self.acts.register_supply(kind))
                continue
            id = next(
                id for id, each in self.model.supplies.items() if (each.kind, each.status) == (kind, way)
            )
            self.take(self.acts.move_supply(id, BACK[way]))

    def put_up(self, subject_id: UUID) -> None:
        """Have a subject on whichever asset is free, unless it is on one."""
        if self.model.subjects[subject_id].status == "Removed":
            self.take(self.acts.receive(subject_id))
        taken = {each.asset_id for each in self.model.subjects.values()}
        free = next(asset for asset, id in enumerate((*self.model.bound, None)) if id not in taken)
        if self.model.subjects[subject_id].asset_id is None:
            self.take(self.acts.mount(subject_id, free))

    # At once

    @step(
        7,
        run=SOME,
        campaign=SOME,
        other=SOME,
        place=ONE_OF_TWO,
        chosen=st.lists(st.integers(0, 21), min_size=2, max_size=3, unique=True),
        overtaken=st.booleans(),
    )
    def run_into_one_another(
        self, run: int, campaign: int, other: int, place: int, chosen: list[int], overtaken: bool
    ) -> None:
        """Calls that concern one run, its campaign and its gate, all at once."""
        acts, run_id, subject_id = self.acts, self.run_id(run), self.subject_id(other)
        first, second = self.campaign_id(campaign), self.campaign_id(other)
        started = acts.start(self.order({}, 0, other, campaign), 1)
        actions = [
            *(acts.hold(run_id, who) for who in range(3)),
            *(acts.resume(run_id, who) for who in range(3)),
            acts.end(run_id, "stop"),
            acts.adjust(run_id, {"exposure": 3}),
            started,
            acts.move_campaign(self.covering(campaign), "close"),
            acts.add(first, run_id),
            acts.add(second, run_id),
            acts.remove(first, run_id),
            acts.mount(subject_id, place),
            acts.mount(self.subject_id(other + 1), place),
            acts.leave(subject_id, "dismount", beside=started),
            acts.measure(subject_id, run_id),
            acts.observe(place, PermitStatus.NOT_PERMITTED),
            acts.observe(place, None),
            acts.move_supply(self.supply_id(other), "mark-unavailable"),
            acts.declare(place, "Faulted"),
            acts.expire(self.clearance_id(other)),
        ]
        self.take_at_once([actions[index] for index in chosen], overtaken=overtaken)

    @step(
        7,
        run=SOME,
        subject=st.none() | SOME,
        campaign=SOME,
        place=ONE_OF_TWO,
        withdrawal=st.integers(0, 10),
        overtaken=st.sampled_from([True, True, False]),
    )
    def withdraw_while_one_goes_on(
        self, run: int, subject: int | None, campaign: int, place: int, withdrawal: int, overtaken: bool
    ) -> None:
        """A start or resume that nothing is against, while something is withdrawn that it relies on."""
        self.mend()
        acts, going = self.acts, self.acts.start(self.order({}, 0, subject, campaign))
        plan_id, subject_id = self.plan_id(), self.subject_id(subject or 0)
        held = [(id, each) for id, each in self.model.runs.items() if len(each.holders) == 1]
        if held and run % 2:
            run_id, state = held[run // 2 % len(held)]
            plan_id, subject_id = state.plan_id, state.subject_id or subject_id
            [holder] = state.holders
            going = acts.resume(run_id, [acts.principal(who) for who in range(3)].index(holder))
        withdrawals = [
            acts.observe(place, PermitStatus.NOT_PERMITTED),
            acts.observe(place, None),
            acts.place(place, 1 - place),
            acts.move_supply(self.supply_id(run), "mark-unavailable"),
            acts.declare(place, "Faulted"),
            acts.maintain(place, "enter"),
            acts.expire(self.clearance_id(run)),
            acts.move_campaign(self.covering(campaign), "abandon"),
            acts.limit(plan_id, (1, 1)),
            acts.deprecate(plan_id),
            acts.leave(subject_id, "dismount", beside=going),
        ]
        self.take_at_once([going, withdrawals[withdrawal]], overtaken=overtaken)

    # Asking

    @step(2, values=VALUES, plan=SOME, subject=st.none() | SOME, campaign=st.none() | SOME)
    def ask_whether_one_would_start(
        self, values: dict[str, Any], plan: int, subject: int | None, campaign: int | None
    ) -> None:
        action = self.acts.start(self.order(values, plan, subject, campaign))
        fields = ("name", "plan_id", "subject_id", "campaign_id", "override_parameters")
        readiness = self.call(CheckRunReadiness(**{name: getattr(action.request, name) for name in fields}))
        check_readiness(readiness, action.expected(self.model.copy()))

    @step(2, run=SOME, who=WHO)
    def ask_whether_one_would_resume(self, run: int, who: int) -> None:
        run_id = self.run_id(run, "Held")
        readiness = self.call(GetRunReadiness(run_id=run_id), self.acts.callers[who])
        check_readiness(readiness, self.model.would_resume(run_id, self.acts.principal(who)))

    @invariant()
    def everything_is_as_foretold(self) -> None:
        assert self.run(self.told()) == self.foretold(self.model)

    async def examine(self) -> None:
        states = await folds(self.app, campaigns)
        await check_list(self.app, campaigns, states, status={CampaignListStatus.ALL})
        shown = {view.id: view.outcome for view in await listed(self.app, runs)}
        assert shown == {id: OUTCOMES[run.status] for id, run in self.model.runs.items()}
        for id, campaign in self.model.campaigns.items():
            progress = await self.do(GetCampaignProgress(campaign_id=id))
            statuses = [self.model.runs[run_id].status for run_id in campaign.run_ids]
            assert Counter(progress.counts_by_status) == Counter(statuses)
            assert Counter(progress.counts_by_outcome) == Counter(OUTCOMES[each] for each in statuses)
        for id in self.model.plans:
            outcome = await self.do(GetPlanOutcome(plan_id=id))
            statuses = [run.status for run in self.model.runs.values() if run.plan_id == id]
            assert Counter(outcome.counts) == Counter(statuses)
        await check_log(self.app, self.log())

    def log(self) -> Log:
        return Log(self.model.kinds)


def check_readiness(readiness: Readiness, expected: str) -> None:
    """Readiness tells the refusal that the call itself would meet, and first."""
    codes = [failure.code for failure in readiness.failures]
    assert readiness.ready is not bool(codes)
    assert (codes or [ACCEPTED])[0] == expected


def test_runs_fare_as_the_grids_foretell_whatever_is_called(cluster: Cluster) -> None:
    RunWalk.tally.clear()
    walk(RunWalk, cluster, examples=2, steps=200)
    for (request, answer), count in sorted(RunWalk.tally.items()):
        print(f"{count:5} {request} {answer}")
