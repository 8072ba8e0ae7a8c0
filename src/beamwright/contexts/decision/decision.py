"""Decision: one consequential choice: who, in which context, what was chosen, why, and on which inputs."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, assert_never, cast
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text, wellknown
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from beamwright.kernel.event import Belonging, Event
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.roles import ActorKind
from beamwright.kernel.value import Time, Value, encode, replace

_CONTEXT = "^[A-Z][A-Za-z0-9]{0,99}$"
MOST_CONCERNS = 32
MOST_ALTERNATIVES = 32
MOST_INPUTS = 64
MOST_INPUT_BYTES = 64 * 1024

type DecisionContext = Annotated[str, Meta(extra_json_schema={"pattern": _CONTEXT})]
type DecisionChoice = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 500})]
type DecisionConfidence = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
type ReasoningSignature = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 4096})]


class DecisionOverrideKind(StrEnum):
    CORRECTION = "Correction"
    EXCEPTION = "Exception"
    APPEAL = "Appeal"
    SUPERSESSION = "Supersession"
    INVALIDATION = "Invalidation"


class DecisionConfidenceSource(StrEnum):
    SELF_REPORTED = "SelfReported"
    LOGPROB = "Logprob"
    ENSEMBLE = "Ensemble"
    HUMAN = "Human"


class ConfidenceBand(StrEnum):
    """Below 0.3, below 0.7, below 0.95, and above."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"
    CERTAIN = "Certain"


class KnownContext(Value):
    """A context whose choices are a closed set, or that only one kind of agent may decide in."""

    choices: tuple[str, ...] = ()
    # Set by the service when no judgement was made; a model is never offered them.
    system_only: tuple[str, ...] = ()
    reserved_to: str | None = None

    @property
    def all_choices(self) -> tuple[str, ...]:
        return (*self.choices, *self.system_only)


FREE = KnownContext()
KNOWN_CONTEXTS: Mapping[str, KnownContext] = {
    "RunDebrief": KnownContext(
        choices=(
            "NominalCompletion",
            "DegradedCompletion",
            "OperatorAbort",
            "EquipmentAbort",
            "DataSuspect",
        ),
        system_only=("DebriefDeferred", "DebriefConflicted"),
        reserved_to="RunDebriefer",
    ),
    "CautionProposal": KnownContext(
        choices=("NoAction", "ProposeNotice", "ProposeCaution", "ProposeWarning", "ProposeSupersede"),
        system_only=("CautionDraftDeferred", "CautionDraftConflicted"),
        reserved_to="CautionDrafter",
    ),
    "RunSupervision": KnownContext(
        choices=("Hold", "Stop"),
        system_only=("SupervisionDeferred", "SupervisionConflicted"),
        reserved_to="RunSupervisor",
    ),
    "CautionPromotion": KnownContext(
        choices=("Promote",),
        system_only=("PromotionDeferred", "PromotionConflicted"),
        reserved_to="CautionPromoter",
    ),
    "ClearanceExpiry": KnownContext(choices=("Expire",), reserved_to="ClearanceExpirer"),
    "ReactionDismissal": KnownContext(choices=("EventDismissed",)),
    "RecipeApproval": FREE,
    "RunAbort": FREE,
    "RunStop": FREE,
    "RunTruncate": FREE,
    "ResourceAllocation": FREE,
    "PolicyGrant": FREE,
    "ProcedureExecution": FREE,
    "DatasetDiscard": FREE,
}
# The agents that are seeded so far, each the only one of its kind.
AGENT_KINDS: Mapping[UUID, str] = {wellknown.CLEARANCE_EXPIRER: "ClearanceExpirer"}


class DecisionNotFoundError(NotFoundError):
    """There is no such decision."""


class InvalidDecisionContextError(InvalidError):
    """The context is malformed, or is the name of a record."""


class InvalidDecisionChoiceError(InvalidError):
    """The choice is blank, too long, or not of its context's set."""


class InvalidDecisionConcernsError(InvalidError):
    """The concerns are too many, or one names an aggregate that does not exist."""


class InvalidDecisionOverrideError(InvalidError):
    """Only a decision with a parent overrides."""


class InvalidDecisionRuleError(InvalidError):
    """The rule that is cited is blank or too long."""


class InvalidDecisionReasoningError(InvalidError):
    """The reasoning is blank or too long."""


class InvalidDecisionConfidenceError(InvalidError):
    """The confidence is outside 0 to 1, or is given without its source, or the source without it."""


class InvalidDecisionAlternativesError(InvalidError):
    """The alternatives are too many, or one is blank or too long."""


class InvalidDecisionInputsError(InvalidError):
    """The inputs are too many or too large, or hold a number that is not finite."""


class InvalidReasoningSignatureError(InvalidError):
    """The signature of the reasoning is blank or too long."""


class DecisionContextReservedError(DeniedError):
    """Only an agent of a certain kind decides in this context."""


class DecisionParentContextMismatchError(ConflictError):
    """A decision overrides only one of its own context."""


class DecisionAlreadyOverriddenError(ConflictError):
    """The parent has a successor already."""


class DecisionConcern(Value):
    """An object that a decision is about; `kind` is the name of its aggregate."""

    kind: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
    id: UUID

    @property
    def key(self) -> str:
        """How lists and searches name it."""
        return f"{self.kind}:{self.id}"


class DecisionFact(Event):
    decision_id: UUID


class DecisionRegistered(DecisionFact):
    facility_code: str
    visit_ids: frozenset[UUID]
    decided_by: UUID
    decider_kind: ActorKind
    context: str
    choice: str
    concerns: tuple[DecisionConcern, ...]
    parent_id: UUID | None
    override_kind: DecisionOverrideKind | None
    rule: str | None
    reasoning: str | None
    confidence: float | None
    confidence_source: DecisionConfidenceSource | None
    alternatives: tuple[str, ...]
    inputs: dict[str, Any]
    reasoning_signature: str | None


class DecisionOverridden(DecisionFact):
    overridden_by_decision_id: UUID
    override_kind: DecisionOverrideKind


type DecisionEvent = DecisionRegistered | DecisionOverridden


class Decision(Value):
    id: UUID
    facility_code: str
    visit_ids: frozenset[UUID]
    decided_by: UUID
    decider_kind: ActorKind
    decided_at: Time
    context: str
    choice: str
    concerns: tuple[DecisionConcern, ...]
    parent_id: UUID | None
    override_kind: DecisionOverrideKind | None
    rule: str | None
    reasoning: text.Note | None
    confidence: float | None
    confidence_source: DecisionConfidenceSource | None
    alternatives: tuple[str, ...]
    inputs: dict[str, Any]
    reasoning_signature: str | None
    overridden_by_decision_id: UUID | None = None

    @property
    def current(self) -> bool:
        return self.overridden_by_decision_id is None

    @property
    def record(self) -> str | None:
        """The name of the record, in a known context."""
        return record_name(self.context) if self.context in KNOWN_CONTEXTS else None

    @property
    def confidence_band(self) -> ConfidenceBand | None:
        if self.confidence is None:
            return None
        bounds = ((0.3, ConfidenceBand.LOW), (0.7, ConfidenceBand.MEDIUM), (0.95, ConfidenceBand.HIGH))
        return next((band for most, band in bounds if self.confidence < most), ConfidenceBand.CERTAIN)


def record_name(context: str) -> str:
    return f"{context}Decision"


RECORDS = frozenset(map(record_name, KNOWN_CONTEXTS))


def evolve(decision: Decision | None, event: DecisionEvent) -> Decision:
    match event:
        case DecisionRegistered():
            return registered(event)
        case _ if decision is None:
            raise ValueError(event)
        case DecisionOverridden():
            return replace(decision, overridden_by_decision_id=event.overridden_by_decision_id)
        case _:
            assert_never(event)


def registered(event: DecisionRegistered) -> Decision:
    return Decision(
        id=event.decision_id,
        facility_code=event.facility_code,
        visit_ids=event.visit_ids,
        decided_by=event.decided_by,
        decider_kind=event.decider_kind,
        decided_at=event.occurred_at,
        context=event.context,
        choice=event.choice,
        concerns=event.concerns,
        parent_id=event.parent_id,
        override_kind=event.override_kind,
        rule=event.rule,
        reasoning=event.reasoning,
        confidence=event.confidence,
        confidence_source=event.confidence_source,
        alternatives=event.alternatives,
        inputs=event.inputs,
        reasoning_signature=event.reasoning_signature,
    )


decisions = Aggregate[Decision, DecisionEvent](
    "Decision",
    events=DecisionEvent,
    evolve=evolve,
    missing=DecisionNotFoundError,
    belongs=lambda decision: Belonging(
        facility_code=decision.facility_code, visit_ids=decision.visit_ids, owner_id=decision.decided_by
    ),
)


class DecisionExtras(Value):
    """The record that the decision is, how sure it was, and whether it still holds."""

    record: str | None
    confidence_band: ConfidenceBand | None
    current: bool


async def decision_extras(world: World, states: Sequence[Decision]) -> list[DecisionExtras]:
    return [
        DecisionExtras(record=each.record, confidence_band=each.confidence_band, current=each.current)
        for each in states
    ]


decisions.reads(
    "/decisions",
    filters=(
        # Known contexts are found by their own name and by that of their record.
        Filter(
            name="context",
            type=frozenset[str],
            of=lambda decision: [decision.context, *filter(None, [decision.record])],
            test=Test.CONTAINS_ANY,
        ),
        Filter(name="choice", type=frozenset[str], of=lambda decision: decision.choice, test=Test.ONE_OF),
        Filter(
            name="exclude_choice",
            type=frozenset[str],
            of=lambda decision: decision.choice,
            test=Test.NONE_OF,
        ),
        "decided_by",
        "decider_kind",
        "rule",
        Filter(name="confidence_band", type=ConfidenceBand, of=lambda decision: decision.confidence_band),
        Filter(
            name="parent_id",
            type=frozenset[UUID],
            of=lambda decision: decision.parent_id,
            test=Test.ONE_OF,
        ),
        "override_kind",
        Filter(name="current", type=bool, of=lambda decision: decision.current),
        Filter(
            name="concern",
            type=frozenset[str],
            of=lambda decision: [concern.key for concern in decision.concerns],
            test=Test.CONTAINS_ANY,
        ),
        Filter(name="decided_from", type=Time, of=lambda decision: decision.decided_at, test=Test.AT_LEAST),
        Filter(name="decided_until", type=Time, of=lambda decision: decision.decided_at, test=Test.BEFORE),
        "facility_code",
        Filter(
            name="visit_id", type=UUID, of=lambda decision: sorted(decision.visit_ids), test=Test.CONTAINS
        ),
    ),
    sorts=("decided_at",),
    text=("choice", "rule", "reasoning"),
    extras=(DecisionExtras, decision_extras),
)


class DecisionGrounds(Value):
    """Where a new decision belongs, and the decision that it follows from or overrides."""

    facility_code: str
    visit_ids: frozenset[UUID] = frozenset()
    parent: Decision | None = None


@decisions.operation("POST /decisions", creates=True)
class RegisterDecision(Command[DecisionGrounds]):
    """Record what you decided, and why; it is never edited, only overridden by a later decision."""

    context: DecisionContext
    choice: DecisionChoice
    concerns: tuple[DecisionConcern, ...] = ()
    parent_id: UUID | None = None
    override_kind: DecisionOverrideKind | None = None
    rule: DecisionChoice | None = None
    reasoning: text.Note | None = None
    confidence: DecisionConfidence | None = None
    confidence_source: DecisionConfidenceSource | None = None
    alternatives: tuple[DecisionChoice, ...] = ()
    inputs: dict[str, Any] = {}
    reasoning_signature: ReasoningSignature | None = None

    async def gather(self, world: World) -> DecisionGrounds:
        parent = None if self.parent_id is None else await world.load(decisions, self.parent_id)
        place = await place_of(world, self.concerns)
        return DecisionGrounds(
            facility_code=place.facility_code or world.installation.self_facility_code,
            visit_ids=place.visit_ids,
            parent=parent,
        )

    def decide(self, seen: DecisionGrounds, occasion: Occasion) -> list[DecisionEvent]:
        registered = self.checked(seen, occasion)
        check_reserved(registered.context, occasion)
        parent, kind = seen.parent, self.override_kind
        if parent is None or kind is None:
            return [registered]
        check_overridable(parent, registered.context)
        overridden = DecisionOverridden(
            decision_id=parent.id,
            occurred_at=occasion.now,
            overridden_by_decision_id=registered.decision_id,
            override_kind=kind,
        )
        return [registered, overridden]

    def checked(self, seen: DecisionGrounds, occasion: Occasion) -> DecisionRegistered:
        """The values, each refused by its own class, in the order of the fields."""
        context = checked_context(self.context)
        choice = checked_choice(self.choice, context)
        check_concerns(self.concerns)
        if self.override_kind is not None and self.parent_id is None:
            raise InvalidDecisionOverrideError("Say with parent_id which decision is overridden.")
        rule, reasoning, signature = self.rule, self.reasoning, self.reasoning_signature
        if rule is not None:
            rule = text.trimmed(rule, 500, InvalidDecisionRuleError, "rule")
        if reasoning is not None:
            reasoning = text.note(reasoning, InvalidDecisionReasoningError)
        check_confidence(self.confidence, self.confidence_source)
        alternatives = checked_alternatives(self.alternatives)
        check_inputs(self.inputs)
        if signature is not None:
            signature = text.trimmed(signature, 4096, InvalidReasoningSignatureError, "signature")
        return DecisionRegistered(
            decision_id=occasion.new_id,
            occurred_at=occasion.now,
            facility_code=seen.facility_code,
            visit_ids=seen.visit_ids,
            decided_by=occasion.principal_id,
            decider_kind=ActorKind(occasion.principal_kind),
            context=context,
            choice=choice,
            concerns=self.concerns,
            parent_id=self.parent_id,
            override_kind=self.override_kind,
            rule=rule,
            reasoning=reasoning,
            confidence=self.confidence,
            confidence_source=self.confidence_source,
            alternatives=alternatives,
            inputs=self.inputs,
            reasoning_signature=signature,
        )


async def place_of(world: World, concerns: Sequence[DecisionConcern]) -> Belonging:
    """Every concern exists within the caller's reach; the first that belongs somewhere says where."""
    check_concerns(concerns)
    first = Belonging.nowhere
    for concern in concerns:
        if await world.look_up(concern.kind, ids=[]) is None:
            raise InvalidDecisionConcernsError(
                f"There is no aggregate named “{concern.kind[:100]}”.", kind=concern.kind[:100]
            )
        belonging = await world.belonging(concern.kind, concern.id)
        if first == Belonging.nowhere and (belonging.facility_code or belonging.visit_ids):
            first = Belonging(facility_code=belonging.facility_code, visit_ids=belonging.visit_ids)
    return first


def checked_context(given: str) -> str:
    context = text.code(given, _CONTEXT, InvalidDecisionContextError, "context")
    if context in RECORDS:
        raise InvalidDecisionContextError(
            f"{context} is the name of a record; its context is {context.removesuffix('Decision')}.",
            context=context,
        )
    return context


def checked_choice(given: str, context: str) -> str:
    choice = text.trimmed(given, 500, InvalidDecisionChoiceError, "choice")
    choices = KNOWN_CONTEXTS.get(context, FREE).all_choices
    if choices and choice not in choices:
        raise InvalidDecisionChoiceError(
            f"The choices of {context} are {', '.join(choices)}.", context=context, choices=list(choices)
        )
    return choice


def check_concerns(concerns: Sequence[DecisionConcern]) -> None:
    if len(concerns) > MOST_CONCERNS:
        raise InvalidDecisionConcernsError(
            f"A decision is about {MOST_CONCERNS} objects at most.", count=len(concerns), most=MOST_CONCERNS
        )


def check_confidence(confidence: float | None, source: DecisionConfidenceSource | None) -> None:
    if (confidence is None) != (source is None):
        raise InvalidDecisionConfidenceError("Give confidence and confidence_source, or neither.")
    if confidence is not None and not 0 <= confidence <= 1:
        raise InvalidDecisionConfidenceError("Confidence lies between 0 and 1.")


def checked_alternatives(given: Sequence[str]) -> tuple[str, ...]:
    refusal = InvalidDecisionAlternativesError
    if len(given) > MOST_ALTERNATIVES:
        raise refusal(f"At most {MOST_ALTERNATIVES} alternatives are kept.", most=MOST_ALTERNATIVES)
    return tuple(text.trimmed(each, 500, refusal, "alternative") for each in given)


def check_inputs(inputs: Mapping[str, Any]) -> None:
    refusal = InvalidDecisionInputsError
    if len(inputs) > MOST_INPUTS or any(not 1 <= len(key) <= 100 for key in inputs):
        raise refusal(f"Inputs have at most {MOST_INPUTS} keys of 1 to 100 characters.", most=MOST_INPUTS)
    if not all(map(finite, inputs.values())):
        raise refusal("Inputs hold finite numbers only.")
    if len(encode(inputs)) > MOST_INPUT_BYTES:
        raise refusal(f"Inputs take at most {MOST_INPUT_BYTES} bytes.", most=MOST_INPUT_BYTES)


def finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(finite, cast(dict[str, Any], value).values()))
        case list() | tuple():
            return all(map(finite, cast(list[Any], value)))
        case _:
            return True


def check_reserved(context: str, occasion: Occasion) -> None:
    """Gate: the records of an agent are that agent's."""
    kind = KNOWN_CONTEXTS.get(context, FREE).reserved_to
    if kind is not None and AGENT_KINDS.get(occasion.principal_id) != kind:
        raise DecisionContextReservedError(
            f"Only an agent of kind {kind} decides in context {context}.", context=context, reserved_to=kind
        )


def check_overridable(parent: Decision, context: str) -> None:
    """Gate: a chain stays within its context and has one current end."""
    if parent.context != context:
        raise DecisionParentContextMismatchError(
            f"The parent was decided in context {parent.context}, not in {context}.",
            parent_id=str(parent.id),
            parent_context=parent.context,
            context=context,
        )
    if parent.overridden_by_decision_id is not None:
        raise DecisionAlreadyOverriddenError(
            f"Decision {parent.overridden_by_decision_id} overrides it already; override that one.",
            parent_id=str(parent.id),
            overridden_by_decision_id=str(parent.overridden_by_decision_id),
        )
