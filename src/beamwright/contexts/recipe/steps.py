"""Recipe steps: five arms, the four references that their data may hold, and how a reference becomes a value."""

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, assert_never, cast

from msgspec import UNSET, Meta

from beamwright.kernel.content_hash import content_hash
from beamwright.kernel.declared_schema import pointer
from beamwright.kernel.value import Value, replace

STEPS_MEDIA_TYPE = "application/vnd.beamwright.steps+json"
NAME = "^[a-z][a-z0-9_]{0,49}$"
ADDRESS = r"^[a-z][a-z0-9+.-]*://\S+$"
SHORTEST_ADDRESS, LONGEST_ADDRESS = 5, 255
LONGEST_TIMEOUT = 86_400
MOST_NUMBERS = 10_000
LONGEST_URI = 2048
# Keys that begin so are kept for references; nothing else may be spelled like one.
RESERVED = "__"

type StepLabel = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
type Address = Annotated[
    str,
    Meta(
        description="Where to read or write, as `<scheme>://<rest>`.",
        extra_json_schema={
            "pattern": ADDRESS,
            "minLength": SHORTEST_ADDRESS,
            "maxLength": LONGEST_ADDRESS,
        },
    ),
]
type Seconds = Annotated[
    float,
    Meta(
        extra_json_schema={
            "minimum": 0,
            "maximum": LONGEST_TIMEOUT,
            "unit": {"system": "udunits", "code": "s"},
        }
    ),
]
type StepName = Annotated[str, Meta(extra_json_schema={"pattern": NAME})]
type ActionName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
type CommandToken = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 255})]
type Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
type Bytes = Annotated[
    int, Meta(extra_json_schema={"minimum": 1, "unit": {"system": "udunits", "code": "byte"}})
]

# Objects here are references, which the rules of steps tell from other objects.
type StepValue = bool | int | float | str | dict[str, Any] | list[bool | int | float | str | dict[str, Any]]
type StepNumber = float | dict[str, Any]
type StepUri = str | dict[str, Any]


class StepKind(StrEnum):
    SETPOINT = "Setpoint"
    ACTION = "Action"
    CHECK = "Check"
    CAPTURE = "Capture"
    COMPUTE = "Compute"


class StepListName(StrEnum):
    STEPS = "steps"
    CLOSING_STEPS = "closing_steps"


class Sentinel(Value):
    """A reference: an object of one reserved key that stands for a value of any JSON type."""

    name: str

    key: ClassVar[str]


class BindingRef(Sentinel):
    """A value that the operator binds; replaced at expansion."""

    key: ClassVar[str] = "__binding__"


class CaptureRef(Sentinel):
    """A reading that an earlier step deposited; replaced at execution."""

    key: ClassVar[str] = "__capture__"


class SteeringRef(Sentinel):
    """A coordinate of the point that the decide loop measures in this pass; replaced at execution."""

    key: ClassVar[str] = "__steering__"


class OutputRef(Sentinel):
    """The URI of an artifact that an earlier compute step produced; replaced at execution."""

    key: ClassVar[str] = "__output__"


_SENTINELS: Mapping[str, type[Sentinel]] = {
    each.key: each for each in (BindingRef, CaptureRef, SteeringRef, OutputRef)
}


class EqualsCriterion(Value, tag_field="kind", tag="Equals", forbid_unknown_fields=True):
    """The reading is the expected value, in type and all."""

    expected: StepValue


class WithinToleranceCriterion(Value, tag_field="kind", tag="WithinTolerance", forbid_unknown_fields=True):
    """The reading is a number no further from the expected one than the tolerance."""

    expected: StepNumber
    tolerance: StepNumber


type Criterion = EqualsCriterion | WithinToleranceCriterion


class ComputeResources(Value, forbid_unknown_fields=True):
    """What a compute job asks for."""

    cpus: Count | None = None
    system_memory: Bytes | None = None
    gpu_count: Count = 0
    gpu_memory: Bytes | None = None


class RecipeSetpointStep(Value, tag_field="kind", tag="Setpoint", forbid_unknown_fields=True):
    """Write a value and wait until it is confirmed."""

    kind: ClassVar[StepKind] = StepKind.SETPOINT

    address: Address
    value: StepValue
    verify: bool = False
    label: StepLabel | None = None
    timeout: Seconds = 30.0


class RecipeActionStep(Value, tag_field="kind", tag="Action", forbid_unknown_fields=True):
    """Carry out a registered action."""

    kind: ClassVar[StepKind] = StepKind.ACTION

    name: ActionName
    params: dict[str, Any] = {}
    label: StepLabel | None = None
    timeout: Seconds = 3600.0


class RecipeCheckStep(Value, tag_field="kind", tag="Check", forbid_unknown_fields=True):
    """Read and judge; with a timeout, wait until the criterion holds."""

    kind: ClassVar[StepKind] = StepKind.CHECK

    address: Address
    criterion: Criterion
    label: StepLabel | None = None
    timeout: Seconds = 0.0


class RecipeCaptureStep(Value, tag_field="kind", tag="Capture", forbid_unknown_fields=True):
    """Read, and keep the reading under a name for later steps."""

    kind: ClassVar[StepKind] = StepKind.CAPTURE

    address: Address
    capture_name: StepName
    label: StepLabel | None = None
    timeout: Seconds = 10.0


class RecipeComputeStep(Value, tag_field="kind", tag="Compute", forbid_unknown_fields=True):
    """Run a program: without output_uri it yields measurements, with it an artifact."""

    kind: ClassVar[StepKind] = StepKind.COMPUTE

    command: tuple[CommandToken, ...]
    input_uris: tuple[StepUri, ...] = ()
    output_uri: StepUri | None = None
    parameters: dict[str, Any] = {}
    capture_name: StepName | None = None
    output_name: StepName | None = None
    resources: ComputeResources | None = None
    label: StepLabel | None = None
    timeout: Seconds = 3600.0


type RecipeStep = (
    RecipeSetpointStep | RecipeActionStep | RecipeCheckStep | RecipeCaptureStep | RecipeComputeStep
)


class StepLists(Value):
    """The main steps, and those that bring the equipment to rest afterwards."""

    steps: tuple[RecipeStep, ...]
    closing_steps: tuple[RecipeStep, ...] = ()


class PlacedStep(Value):
    """A step and where it stands; the index never changes, whatever is substituted."""

    list: StepListName
    step_index: int
    step: RecipeStep


def walk(lists: StepLists) -> Iterator[PlacedStep]:
    """Every step in the order of execution."""
    for name, steps in (
        (StepListName.STEPS, lists.steps),
        (StepListName.CLOSING_STEPS, lists.closing_steps),
    ):
        for index, step in enumerate(steps):
            yield PlacedStep(list=name, step_index=index, step=step)


class Place(StrEnum):
    """What may stand at a place of a step, in words."""

    VALUE = "a boolean, a number, text or a list of numbers"
    NUMBER = "a number"
    TOLERANCE = "a number that is not negative"
    URI = f"a URI of 1 to {LONGEST_URI} visible characters"
    OBJECT = "an object whose keys are not reserved"
    JSON = "a value that is not null, whose keys are not reserved"


class Part(Value):
    """Data of a step: where it stands, what may stand there, and which references may."""

    path: str
    value: Any
    place: Place
    refs: tuple[type[Sentinel], ...]


_B, _BO = (BindingRef,), (BindingRef, OutputRef)
_BCS = (BindingRef, CaptureRef, SteeringRef)
_BCSO = (*_BCS, OutputRef)


def parts(step: RecipeStep) -> list[Part]:
    """The data of a step; everything else in it is literal."""
    match step:
        case RecipeSetpointStep():
            return [Part(path="/value", value=step.value, place=Place.VALUE, refs=_BCS)]
        case RecipeActionStep():
            return [Part(path="/params", value=step.params, place=Place.OBJECT, refs=_BCS)]
        case RecipeCheckStep():
            return _judged(step.criterion)
        case RecipeCaptureStep():
            return []
        case RecipeComputeStep():
            uris = [
                Part(path=f"/input_uris/{index}", value=uri, place=Place.URI, refs=_BO)
                for index, uri in enumerate(step.input_uris)
            ]
            if step.output_uri is not None:
                uris.append(Part(path="/output_uri", value=step.output_uri, place=Place.URI, refs=_B))
            return [*uris, Part(path="/parameters", value=step.parameters, place=Place.OBJECT, refs=_BCSO)]
        case _:
            assert_never(step)


def _judged(criterion: Criterion) -> list[Part]:
    expected, path = criterion.expected, "/criterion/expected"
    match criterion:
        case EqualsCriterion():
            return [Part(path=path, value=expected, place=Place.VALUE, refs=_BCS)]
        case WithinToleranceCriterion():
            tolerance = Part(
                path="/criterion/tolerance", value=criterion.tolerance, place=Place.TOLERANCE, refs=_B
            )
            return [Part(path=path, value=expected, place=Place.NUMBER, refs=_BCS), tolerance]
        case _:
            assert_never(criterion)


def sentinel(value: Any) -> Sentinel | None:
    """The reference that a JSON value is, if it is one."""
    if not isinstance(value, dict) or len(cast(dict[str, Any], value)) != 1:
        return None
    ((key, name),) = cast(dict[str, Any], value).items()
    return _SENTINELS[key](name=name) if key in _SENTINELS and isinstance(name, str) else None


def reserved(value: Mapping[str, Any]) -> bool:
    """Whether an object has a key that is kept for references."""
    return any(key.startswith(RESERVED) for key in value)


def leaves(part: Part) -> Iterator[Part]:
    """The scalars and references of a part, in order; objects that may not be looked into stay whole."""
    pending = [part]
    while pending:
        here = pending.pop()
        below = _below(here)
        if below is None:
            yield here
        else:
            pending.extend(reversed(below))


def _below(part: Part) -> list[Part] | None:
    value: Any = part.value
    match value:
        case list() if part.place in (Place.VALUE, Place.JSON):
            place = Place.NUMBER if part.place is Place.VALUE else Place.JSON
            items = enumerate(cast(list[Any], value))
            return [_within(part, index, item, place) for index, item in items]
        case dict() if part.place in (Place.OBJECT, Place.JSON):
            members = cast(dict[str, Any], value)
            if reserved(members):
                return None
            return [_within(part, key, each, Place.JSON) for key, each in members.items()]
        case _:
            return None


def _within(part: Part, key: str | int, value: Any, place: Place) -> Part:
    return Part(path=pointer(part.path, key), value=value, place=place, refs=part.refs)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number that a double can hold; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def admits(place: Place, value: Any) -> bool:
    """Whether a literal may stand at a place."""
    match place:
        case Place.VALUE:
            return isinstance(value, bool | str) or is_number(value) or _are_numbers(value)
        case Place.NUMBER:
            return is_number(value)
        case Place.TOLERANCE:
            return is_number(value) and value >= 0
        case Place.URI:
            return isinstance(value, str) and 1 <= len(value) <= LONGEST_URI and visible(value)
        case Place.JSON:
            return isinstance(value, bool | str) or is_number(value)
        case Place.OBJECT:
            return False


def visible(value: str) -> bool:
    """Whether text has neither spaces nor control characters."""
    return value.isprintable() and " " not in value


def _are_numbers(value: Any) -> bool:
    items = cast(list[Any], value) if isinstance(value, list) else None
    return items is not None and len(items) <= MOST_NUMBERS and all(map(is_number, items))


class Use(Value):
    """A reference within a step, and what may stand at its place."""

    path: str
    place: Place
    ref: Sentinel


def uses(step: RecipeStep) -> Iterator[Use]:
    """The references of a step, in order."""
    for part in parts(step):
        for leaf in leaves(part):
            ref = sentinel(leaf.value)
            if ref is not None:
                yield Use(path=leaf.path, place=leaf.place, ref=ref)


def deposited_capture(step: RecipeStep) -> str | None:
    """The name under which later steps find what this one read."""
    return step.capture_name if isinstance(step, RecipeCaptureStep | RecipeComputeStep) else None


def produced_output(step: RecipeStep) -> str | None:
    """The name under which later steps find the artifact that this one produced."""
    return step.output_name if isinstance(step, RecipeComputeStep) else None


def addresses(lists: StepLists) -> list[str]:
    """Every address that a step reads or writes, sorted."""
    steps = (placed.step for placed in walk(lists))
    return sorted(
        {step.address for step in steps if not isinstance(step, RecipeActionStep | RecipeComputeStep)}
    )


# The value of a reference with its JSON type, or UNSET to leave the reference where it is.
type Resolve = Callable[[Sentinel], Any]


def substituted(step: RecipeStep, resolve: Resolve) -> RecipeStep:
    """The step with references replaced by values, type and all; what is substituted is not looked into."""
    match step:
        case RecipeSetpointStep():
            return replace(step, value=_put(step.value, resolve))
        case RecipeActionStep():
            return replace(step, params=_put(step.params, resolve))
        case RecipeCheckStep():
            return replace(step, criterion=_put_criterion(step.criterion, resolve))
        case RecipeCaptureStep():
            return step
        case RecipeComputeStep():
            return replace(
                step,
                input_uris=tuple(_put(uri, resolve) for uri in step.input_uris),
                output_uri=_put(step.output_uri, resolve),
                parameters=_put(step.parameters, resolve),
            )
        case _:
            assert_never(step)


def _put_criterion(criterion: Criterion, resolve: Resolve) -> Criterion:
    match criterion:
        case EqualsCriterion():
            return replace(criterion, expected=_put(criterion.expected, resolve))
        case WithinToleranceCriterion():
            expected, tolerance = _put(criterion.expected, resolve), _put(criterion.tolerance, resolve)
            return replace(criterion, expected=expected, tolerance=tolerance)
        case _:
            assert_never(criterion)


def _put(value: Any, resolve: Resolve) -> Any:
    # Recursive, as only checked steps come here, which nest in a few levels.
    ref = sentinel(value)
    if ref is not None:
        found = resolve(ref)
        return value if found is UNSET else found
    match value:
        case dict():
            return {key: _put(each, resolve) for key, each in cast(dict[str, Any], value).items()}
        case list():
            return [_put(each, resolve) for each in cast(list[Any], value)]
        case _:
            return value


def steps_hash(lists: StepLists) -> str:
    return content_hash(STEPS_MEDIA_TYPE, lists)


def bindings_hash(bindings: Mapping[str, Any]) -> str:
    return content_hash(STEPS_MEDIA_TYPE, dict(bindings))
