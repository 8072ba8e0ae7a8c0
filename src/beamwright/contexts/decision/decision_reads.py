"""The chain of a decision: what it follows from, what follows from it, and which one holds."""

from uuid import UUID

from beamwright.kernel.errors import InvalidError
from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Time, Value

from .decision import Decision, DecisionOverrideKind, decisions

MOST_LINKS = 1000


class DecisionChainTooLongError(InvalidError):
    """The chain has more decisions than one answer shows; begin at a later one."""


class DecisionLink(Value):
    """One decision of a chain."""

    decision_id: UUID
    parent_id: UUID | None
    override_kind: DecisionOverrideKind | None
    context: str
    choice: str
    decided_by: UUID
    decided_at: Time
    current: bool


class DecisionChain(Value):
    """Ancestors, nearest first; descendants, oldest first; and the one that holds in the place of this one."""

    decision_id: UUID
    ancestors: list[DecisionLink]
    descendants: list[DecisionLink]
    current_decision_id: UUID


@decisions.operation("GET /decisions/{decision_id}/chain")
class GetDecisionChain(Query[DecisionChain]):
    """Read what a decision follows from, what follows from it, and which one holds now."""

    decision_id: UUID

    async def answer(self, world: World) -> DecisionChain:
        decision = await world.load(decisions, self.decision_id)
        ancestors = await load_ancestors(world, decision)
        descendants = await load_descendants(world, decision)
        successors = {each.id: each.overridden_by_decision_id for each in (decision, *descendants)}
        current = decision.id
        while (successor := successors.get(current)) is not None:
            current = successor
        reach = world.reach("get_decision")
        return DecisionChain(
            decision_id=decision.id,
            ancestors=[
                link(each) for each in ancestors if reach.holds(decisions.belongs(each), reading=True)
            ],
            descendants=[
                link(each) for each in descendants if reach.holds(decisions.belongs(each), reading=True)
            ],
            current_decision_id=current,
        )


async def load_ancestors(world: World, decision: Decision) -> list[Decision]:
    found: list[Decision] = []
    while decision.parent_id is not None:
        decision = await world.load(decisions, decision.parent_id)
        found.append(decision)
        check_length(found)
    return found


async def load_descendants(world: World, decision: Decision) -> list[Decision]:
    """Level by level; parents exist before their children, so there is an end."""
    found: list[Decision] = []
    level = frozenset({decision.id})
    while level:
        children = await world.find(decisions, parent_id=level)
        found += children
        check_length(found)
        level = frozenset(child.id for child in children)
    return sorted(found, key=lambda each: (each.decided_at, each.id))


def check_length(found: list[Decision]) -> None:
    if len(found) > MOST_LINKS:
        raise DecisionChainTooLongError(
            f"More than {MOST_LINKS} decisions are in this chain; ask for the chain of a later one.",
            most=MOST_LINKS,
        )


def link(decision: Decision) -> DecisionLink:
    return DecisionLink(
        decision_id=decision.id,
        parent_id=decision.parent_id,
        override_kind=decision.override_kind,
        context=decision.context,
        choice=decision.choice,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        current=decision.current,
    )
