"""Reads of campaigns: those that go on unless asked otherwise, and how their runs fare."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from beamwright.contexts.federation.facility import FacilityCode
from beamwright.contexts.run.run import RunOutcome, RunStatus, runs
from beamwright.contexts.run.run_reads import Seconds
from beamwright.kernel import text
from beamwright.kernel.aggregate import Cursor, Filter, ListRequest, SearchText, Test
from beamwright.kernel.errors import ShapeError
from beamwright.kernel.operation import Query, World
from beamwright.kernel.problem import Fault
from beamwright.kernel.value import Time, Value, replace

from .campaign import (
    OPEN,
    Campaign,
    CampaignIntent,
    CampaignStatus,
    CampaignTag,
    campaigns,
)

# The list moves on in steps; between two of them several reads see the same.
TRIES = 10
MOST_IN_A_PAGE = 200

type Short = Annotated[str, Meta(max_length=200)]


class CampaignListStatus(StrEnum):
    """What a list can be asked for: any statuses, or `all` alone."""

    PLANNED = "Planned"
    ACTIVE = "Active"
    HELD = "Held"
    CLOSED = "Closed"
    ABANDONED = "Abandoned"
    ALL = "all"


class CampaignExtras(Value):
    """What a campaign's view shows beyond its state: who leads it, and how many of its runs have each status.

    Runs are counted as their list has them, within the caller's reach.
    """

    lead_name: str
    run_counts: dict[RunStatus, int]


async def campaign_extras(world: World, states: Sequence[Campaign]) -> list[CampaignExtras]:
    names = await world.profiles.names({campaign.lead_actor_id for campaign in states})
    ids = [campaign.id for campaign in states]
    tally = await world.tally(runs, "campaign_id", "status", campaign_id=ids)
    return [
        CampaignExtras(
            lead_name=names[campaign.lead_actor_id],
            run_counts={status: tally.get((campaign.id, status), 0) for status in RunStatus},
        )
        for campaign in states
    ]


# Given both, external_scheme and external_value find campaigns that have the scheme and have the value.
campaigns.reads(
    "/campaigns",
    filters=(
        Filter[Campaign](
            name="status",
            type=frozenset[CampaignStatus],
            of=lambda campaign: campaign.status,
            test=Test.ONE_OF,
        ),
        "intent",
        "lead_actor_id",
        "subject_id",
        "visit_id",
        "facility_code",
        Filter[Campaign](
            name="tag", type=Short, of=lambda campaign: sorted(campaign.tags), test=Test.CONTAINS
        ),
        Filter[Campaign](
            name="run_id", type=UUID, of=lambda campaign: sorted(campaign.run_ids), test=Test.CONTAINS
        ),
        Filter[Campaign](
            name="external_scheme",
            type=Short,
            of=lambda campaign: sorted(campaign.external_refs),
            test=Test.CONTAINS,
        ),
        Filter[Campaign](
            name="external_value",
            type=Short,
            of=lambda campaign: sorted({ref.value for ref in campaign.external_refs.values()}),
            test=Test.CONTAINS,
        ),
    ),
    sorts=("created_at", "updated_at", "name", "started_at"),
    text=("words",),
    extras=(CampaignExtras, campaign_extras),
    context=__name__,
    lists=False,
)

# The view exists only once it was derived from the state, hence no class statement and no static type.
CampaignPage: Any = msgspec.defstruct(
    "CampaignPage",
    [("items", list[campaigns.view]), ("next_cursor", str | None), ("as_of", str)],
    frozen=True,
    kw_only=True,
)


@campaigns.operation("GET /campaigns", response=CampaignPage)
class ListCampaigns(ListRequest):
    """List campaigns, filtered, searched and sorted; those that have ended only when asked for."""

    status: frozenset[CampaignListStatus] | None = None
    intent: CampaignIntent | None = None
    lead_actor_id: UUID | None = None
    subject_id: UUID | None = None
    visit_id: UUID | None = None
    facility_code: FacilityCode | None = None
    tag: CampaignTag | None = None
    run_id: UUID | None = None
    external_scheme: Short | None = None
    external_value: Short | None = None
    q: SearchText | None = None
    sort: Literal[
        "created_at", "-created_at", "updated_at", "-updated_at", "name", "-name", "started_at", "-started_at"
    ] = "-created_at"

    async def answer(self, world: World) -> Any:
        page = await world.page(campaigns, replace(self, status=self.statuses()))
        return CampaignPage(items=page.items, next_cursor=page.next_cursor, as_of=page.as_of)

    def statuses(self) -> frozenset[CampaignListStatus] | None:
        """The statuses to list; None is every one."""
        asked = self.status or frozenset(CampaignListStatus(status) for status in OPEN)
        if CampaignListStatus.ALL not in asked:
            return asked
        if len(asked) > 1:
            fault = Fault(path="$.status", message="`all` stands alone")
            raise ShapeError("Give `all` alone, or the statuses that you want.", faults=[fault])
        return None


runs.lists_within(
    "GET /campaigns/{campaign_id}/runs",
    "ListCampaignRuns",
    "campaign_id",
    "List the runs of a campaign, filtered, searched and sorted as the runs are.",
    "campaign_id",
    campaigns,
)


class CampaignRun(Value):
    """A run of a campaign in short."""

    run_id: UUID
    name: str
    status: RunStatus
    outcome: RunOutcome
    status_reason: text.Reason | None
    started_at: Time
    ended_at: Time | None
    duration: Seconds


class CampaignProgress(Value):
    """How the runs of a campaign within the caller's reach fare; `total_duration` counts holds too."""

    campaign_id: UUID
    status: CampaignStatus
    run_count: int
    counts_by_status: dict[RunStatus, int]
    counts_by_outcome: dict[RunOutcome, int]
    running: list[CampaignRun]
    held: list[CampaignRun]
    latest_ended: CampaignRun | None
    total_duration: Seconds
    first_started_at: Time | None
    last_started_at: Time | None
    as_of: str


@campaigns.operation("GET /campaigns/{campaign_id}/progress")
class GetCampaignProgress(Query[CampaignProgress]):
    """Read how a campaign fares: its runs by status and outcome, those that go on, and the latest that ended."""

    campaign_id: UUID
    consistent_with: Cursor | None = None

    async def answer(self, world: World) -> CampaignProgress:
        campaign = await world.load(campaigns, self.campaign_id)
        await world.caught_up(runs, self.consistent_with)
        members, as_of, settled = await self._members(world)
        for _ in range(TRIES):
            if settled:
                break
            members, as_of, settled = await self._members(world)
        return progress(campaign, members, as_of)

    async def _members(self, world: World) -> tuple[list[CampaignRun], str, bool]:
        """Every run of the campaign, oldest first, and whether the list stood still while it was read."""
        ask: Any = world.operations["list_runs"].request
        request = ask(campaign_id=self.campaign_id, sort="started_at", limit=MOST_IN_A_PAGE)
        page = first = await world.page(runs, request)
        members = [in_short(run) for run in page.items]
        while page.next_cursor is not None:
            page = await world.page(runs, msgspec.structs.replace(request, cursor=page.next_cursor))
            members += [in_short(run) for run in page.items]
        return members, page.as_of, first.as_of == page.as_of


def in_short(run: Any) -> CampaignRun:
    return CampaignRun(
        run_id=run.id,
        name=run.name,
        status=run.status,
        outcome=run.outcome,
        status_reason=run.status_reason,
        started_at=run.started_at,
        ended_at=run.ended_at,
        duration=run.duration,
    )


def progress(campaign: Campaign, members: Sequence[CampaignRun], as_of: str) -> CampaignProgress:
    """The figures of some runs, which are given oldest first."""
    by_status = Counter(run.status for run in members)
    by_outcome = Counter(run.outcome for run in members)
    ended = [(run.ended_at, run) for run in members if run.ended_at is not None]
    return CampaignProgress(
        campaign_id=campaign.id,
        status=campaign.status,
        run_count=len(members),
        counts_by_status={status: by_status[status] for status in RunStatus},
        counts_by_outcome={outcome: by_outcome[outcome] for outcome in RunOutcome},
        running=[run for run in members if run.status is RunStatus.RUNNING],
        held=[run for run in members if run.status is RunStatus.HELD],
        latest_ended=max(ended, key=lambda each: each[0])[1] if ended else None,
        total_duration=sum(run.duration for run in members),
        first_started_at=members[0].started_at if members else None,
        last_started_at=members[-1].started_at if members else None,
        as_of=as_of,
    )
