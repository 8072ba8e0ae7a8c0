"""Decision: recorded once, overridden by later ones, and reserved to its agent where it is an agent's."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.decision.decision import (
    AGENT_KINDS,
    KNOWN_CONTEXTS,
    ConfidenceBand,
    DecisionAlreadyOverriddenError,
    DecisionConcern,
    DecisionConfidenceSource,
    DecisionContextReservedError,
    DecisionGrounds,
    DecisionOverridden,
    DecisionOverrideKind,
    DecisionParentContextMismatchError,
    DecisionRegistered,
    InvalidDecisionAlternativesError,
    InvalidDecisionChoiceError,
    InvalidDecisionConcernsError,
    InvalidDecisionConfidenceError,
    InvalidDecisionContextError,
    InvalidDecisionInputsError,
    InvalidDecisionOverrideError,
    InvalidDecisionReasoningError,
    InvalidDecisionRuleError,
    InvalidReasoningSignatureError,
    RegisterDecision,
    decisions,
    place_of,
)
from beamwright.kernel import wellknown
from beamwright.kernel.event import Belonging
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import replace
from tests.rules import NEW_ID, NOW, OCCASION, PRINCIPAL, given, outcome

DECISION = UUID(int=2)
CONCERN = DecisionConcern(kind="Asset", id=UUID(int=3))
HERE = DecisionGrounds(facility_code="home")
STOP = RegisterDecision(context="RunStop", choice="stop")
EXPIRE = RegisterDecision(context="ClearanceExpiry", choice="Expire")
EXPIRER = replace(OCCASION, principal_id=wellknown.CLEARANCE_EXPIRER, principal_kind=ActorKind.AGENT)
REGISTERED = DecisionRegistered(
    decision_id=DECISION,
    occurred_at=NOW,
    facility_code="home",
    visit_ids=frozenset(),
    decided_by=PRINCIPAL,
    decider_kind=ActorKind.HUMAN,
    context="RunStop",
    choice="stop",
    concerns=(),
    parent_id=None,
    override_kind=None,
    rule=None,
    reasoning=None,
    confidence=None,
    confidence_source=None,
    alternatives=(),
    inputs={},
    reasoning_signature=None,
)
OVERRIDDEN = DecisionOverridden(
    decision_id=DECISION,
    occurred_at=NOW,
    overridden_by_decision_id=UUID(int=9),
    override_kind=DecisionOverrideKind.CORRECTION,
)


def overriding(**fields: Any) -> RegisterDecision:
    return replace(STOP, parent_id=DECISION, override_kind=DecisionOverrideKind.CORRECTION, **fields)


def test_a_decision_is_its_principal_s_and_the_clock_s() -> None:
    assert outcome(STOP, HERE) == [replace(REGISTERED, decision_id=NEW_ID)]


def test_texts_are_trimmed_and_alternatives_keep_their_order() -> None:
    command = replace(STOP, choice=" stop ", rule=" policy:beam:v1 ", alternatives=(" hold ", "go on"))
    assert outcome(command, HERE) == [
        replace(REGISTERED, decision_id=NEW_ID, rule="policy:beam:v1", alternatives=("hold", "go on"))
    ]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"context": "runStop"}, InvalidDecisionContextError),
        ({"context": "Run Stop"}, InvalidDecisionContextError),
        ({"context": "C" * 101}, InvalidDecisionContextError),
        ({"context": "ClearanceExpiryDecision"}, InvalidDecisionContextError),
        ({"choice": "  "}, InvalidDecisionChoiceError),
        ({"choice": "x" * 501}, InvalidDecisionChoiceError),
        ({"context": "ReactionDismissal", "choice": "Fine"}, InvalidDecisionChoiceError),
        ({"concerns": (CONCERN,) * 33}, InvalidDecisionConcernsError),
        ({"override_kind": DecisionOverrideKind.APPEAL}, InvalidDecisionOverrideError),
        ({"rule": " "}, InvalidDecisionRuleError),
        ({"reasoning": "x" * 5001}, InvalidDecisionReasoningError),
        ({"confidence": 0.5}, InvalidDecisionConfidenceError),
        ({"confidence_source": DecisionConfidenceSource.HUMAN}, InvalidDecisionConfidenceError),
        (
            {"confidence": 1.1, "confidence_source": DecisionConfidenceSource.HUMAN},
            InvalidDecisionConfidenceError,
        ),
        (
            {"confidence": float("nan"), "confidence_source": DecisionConfidenceSource.HUMAN},
            InvalidDecisionConfidenceError,
        ),
        ({"alternatives": ("a",) * 33}, InvalidDecisionAlternativesError),
        ({"alternatives": ("",)}, InvalidDecisionAlternativesError),
        ({"inputs": {str(number): 1 for number in range(65)}}, InvalidDecisionInputsError),
        ({"inputs": {"": 1}}, InvalidDecisionInputsError),
        ({"inputs": {"deep": [{"er": float("inf")}]}}, InvalidDecisionInputsError),
        ({"inputs": {"long": "x" * 65536}}, InvalidDecisionInputsError),
        ({"reasoning_signature": " "}, InvalidReasoningSignatureError),
    ],
)
def test_each_bad_value_has_its_own_refusal(fields: dict[str, Any], refusal: type) -> None:
    assert outcome(replace(STOP, **fields), HERE) == refusal


def test_a_reserved_context_is_open_to_its_agent() -> None:
    assert not isinstance(outcome(EXPIRE, HERE, EXPIRER), type)


@pytest.mark.parametrize(
    "context", [name for name, known in KNOWN_CONTEXTS.items() if known.reserved_to is not None]
)
def test_a_reserved_context_is_closed_to_people_and_other_agents(context: str) -> None:
    command = RegisterDecision(context=context, choice=KNOWN_CONTEXTS[context].choices[0])
    other = replace(EXPIRER, principal_id=UUID(int=5))
    assert outcome(command, HERE) == DecisionContextReservedError
    assert outcome(command, HERE, other) == DecisionContextReservedError


def test_an_unknown_choice_comes_before_the_reservation() -> None:
    assert outcome(replace(EXPIRE, choice="Fine"), HERE) == InvalidDecisionChoiceError


def test_every_seeded_agent_is_of_a_kind_that_a_context_is_reserved_to() -> None:
    assert set(AGENT_KINDS.values()) <= {known.reserved_to for known in KNOWN_CONTEXTS.values()}


def test_an_override_writes_the_successor_on_the_parent() -> None:
    seen = replace(HERE, parent=given(decisions, REGISTERED))
    got = outcome(overriding(), seen)
    assert not isinstance(got, type)
    assert got[1] == replace(OVERRIDDEN, overridden_by_decision_id=NEW_ID)


def test_a_decision_that_only_follows_leaves_its_parent_alone() -> None:
    seen = replace(HERE, parent=given(decisions, REGISTERED))
    got = outcome(replace(STOP, parent_id=DECISION), seen)
    assert not isinstance(got, type) and len(got) == 1


def test_an_override_stays_within_its_context() -> None:
    seen = replace(HERE, parent=given(decisions, REGISTERED))
    assert outcome(overriding(context="RunAbort"), seen) == DecisionParentContextMismatchError


def test_following_from_another_context_is_no_override() -> None:
    seen = replace(HERE, parent=given(decisions, REGISTERED))
    assert not isinstance(outcome(replace(STOP, context="RunAbort", parent_id=DECISION), seen), type)


def test_a_decision_has_one_successor() -> None:
    seen = replace(HERE, parent=given(decisions, REGISTERED, OVERRIDDEN))
    assert outcome(overriding(), seen) == DecisionAlreadyOverriddenError


def test_what_is_overridden_is_not_current() -> None:
    assert given(decisions, REGISTERED).current
    assert not given(decisions, REGISTERED, OVERRIDDEN).current


@pytest.mark.parametrize(
    ("confidence", "band"),
    [
        (0, ConfidenceBand.LOW),
        (0.29, ConfidenceBand.LOW),
        (0.3, ConfidenceBand.MEDIUM),
        (0.7, ConfidenceBand.HIGH),
        (0.95, ConfidenceBand.CERTAIN),
        (None, None),
    ],
)
def test_confidence_bands_begin_where_the_one_below_ends(
    confidence: float | None, band: ConfidenceBand | None
) -> None:
    assert given(decisions, replace(REGISTERED, confidence=confidence)).confidence_band is band


def test_only_known_contexts_have_a_record() -> None:
    assert given(decisions, REGISTERED).record == "RunStopDecision"
    assert given(decisions, replace(REGISTERED, context="Lunch")).record is None


class ConcernedWorld:
    """Knows assets at a facility, visits with a visit, and zones nowhere."""

    places = {
        "Zone": Belonging.nowhere,
        "Asset": Belonging(facility_code="aps"),
        "Visit": Belonging(facility_code="home", visit_ids=frozenset({UUID(int=7)})),
    }

    async def look_up(self, aggregate_name: str, ids: object = None) -> list[Any] | None:
        return [] if aggregate_name in self.places else None

    async def belonging(self, aggregate_name: str, id: UUID) -> Belonging:
        return self.places[aggregate_name]


def place(*kinds: str) -> Belonging:
    world: Any = ConcernedWorld()
    concerns = [DecisionConcern(kind=kind, id=UUID(int=1)) for kind in kinds]
    return asyncio.run(place_of(world, concerns))


def test_a_decision_belongs_where_the_first_placed_concern_does() -> None:
    assert place("Zone", "Visit", "Asset") == ConcernedWorld.places["Visit"]
    assert place("Zone", "Asset", "Visit") == ConcernedWorld.places["Asset"]
    assert place("Zone") == place() == Belonging.nowhere


def test_a_concern_of_no_known_kind_is_refused() -> None:
    with pytest.raises(InvalidDecisionConcernsError):
        place("Asset", "Teapot")
